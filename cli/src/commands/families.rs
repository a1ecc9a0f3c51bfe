//! `mlxcel families`.

use std::fmt::Write as _;

use anyhow::Result;
use mlxcel_core::family::{drafter_families, target_families};

/// Prints the registry: one line a family.
pub(crate) fn families() -> Result<()> {
    let head = ["family", "kind", "model_type", "drafter", "batched", "states"].map(str::to_owned);
    let mut rows = vec![head];
    for family in target_families()? {
        rows.push([
            family.name.to_owned(),
            "target".to_owned(),
            family.model_types.join(", "),
            family.required_drafter_family.unwrap_or("any").to_owned(),
            if family.supports_batched { "yes" } else { "no" }.to_owned(),
            family.states.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        ]);
    }
    for family in drafter_families()? {
        rows.push([family.name, "drafter", "by structure", "-", "-", "-"].map(str::to_owned));
    }
    super::print(&table(&rows))
}

/// Columns as wide as their widest cell.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> = (0..N).map(|column| format!("{:1$}", row[column], width(column))).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}
