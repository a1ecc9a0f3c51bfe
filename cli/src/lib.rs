//! The program `mlxcel`, as a library.
//!
//! A program with families of its own links them and calls [`main`]:
//!
//! ```ignore
//! use my_family as _;
//!
//! fn main() -> std::process::ExitCode {
//!     mlxcel::main()
//! }
//! ```

mod answer;
mod args;
mod closing;
mod commands;
mod error;
mod exactness;
mod families;
mod flags;
mod interactive;
mod interrupt;
mod learning;
mod load;
mod logging;
mod notes;
mod prompt;
mod screen;
mod serve_args;
mod values;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;

use args::{Cli, Command};

/// Runs the program on the arguments of the process.
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Short names of two letters for `serve`, as people know them from other programs; the parser has none.
fn full_names(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    if arguments.get(1).is_some_and(|command| command == "serve") {
        for argument in &mut arguments[2..] {
            match argument.to_str() {
                Some("-np") => *argument = "--parallel".into(),
                Some("-md") => *argument = "--draft-model".into(),
                _ => {}
            }
        }
    }
    arguments
}

/// Runs the program on `arguments`, the program's name first. Returns 0 on success, 1 on failure, 2 for a command line
/// that cannot be served, 130 after Ctrl-C, 141 when the reader of the output has gone.
pub fn run(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    let cli = match Cli::try_parse_from(full_names(arguments)) {
        Ok(cli) => cli,
        Err(refusal) => return without_command(&refusal),
    };
    // A server has no answer on stdout.
    let answers = !matches!(cli.command, Command::Serve(_));
    if answers && mlxcel_core::stdout_was_closed() {
        return error::exit(&error::StdoutClosed.into());
    }
    let result = match cli.command {
        Command::Run(args) => commands::run(*args),
        Command::Serve(args) => commands::serve(&args),
        Command::Families => commands::families(),
        Command::Inspect(args) => commands::inspect(&args),
        Command::Bench(args) => commands::bench(&args),
        Command::Doctor(args) => commands::doctor(&args),
        Command::Prove(args) => commands::prove(&args),
        Command::Completions { shell } => commands::completions(shell),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error::exit(&error),
    }
}

/// The command line is wrong, or asks for help or the version.
fn without_command(refusal: &clap::Error) -> ExitCode {
    let written = refusal.print();
    if refusal.use_stderr() {
        return ExitCode::from(error::USAGE);
    }
    if mlxcel_core::stdout_was_closed() {
        return error::exit(&error::StdoutClosed.into());
    }
    match written {
        // A reader that has gone has seen enough.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            error::exit(&anyhow::Error::from(error).context("cannot write to stdout"))
        }
        _ => ExitCode::SUCCESS,
    }
}
