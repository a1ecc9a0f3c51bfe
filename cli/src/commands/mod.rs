//! The commands.

mod bench;
mod completions;
mod doctor;
mod families;
mod greedy;
mod inspect;
mod prove;
mod run;
mod serve;

pub(crate) use bench::{bench, rate};
pub(crate) use completions::completions;
pub(crate) use doctor::doctor;
pub(crate) use families::families;
pub(crate) use inspect::inspect;
pub(crate) use prove::prove;
pub(crate) use run::run;
pub(crate) use serve::serve;

use std::io::{self, Write as _};

use anyhow::{Context as _, Result};

use crate::error::Quiet;

/// Writes all of a command's output.
fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Quiet::ReaderGone.into()),
        other => other.context("cannot write to stdout"),
    }
}
