//! `mlxcel completions`.

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;

/// Prints the completion script of a shell.
pub(crate) fn completions(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "mlxcel", &mut script);
    super::print(&String::from_utf8(script)?)
}
