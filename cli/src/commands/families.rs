//! `mlxcel families`.

use std::fmt::Write as _;

use anyhow::Result;
use mlxcel_core::family::{drafter_families, target_families};

/// Prints the registry: one line a family.
pub(crate) fn families() -> Result<()> {
    let mut text = format!("{:8} {:8} {:20} {:8} {}\n", "family", "kind", "model_type", "batched", "drafter");
    for family in target_families()? {
        let types = family.model_types.join(", ");
        let batched = if family.supports_batched { "yes" } else { "no" };
        let drafter = family.required_drafter_family.unwrap_or("any");
        let _ = writeln!(text, "{:8} {:8} {types:20} {batched:8} {drafter}", family.name, "target");
    }
    for family in drafter_families()? {
        let _ = writeln!(text, "{:8} {:8} {:20} {:8} -", family.name, "drafter", "by structure", "-");
    }
    super::print(&text)
}
