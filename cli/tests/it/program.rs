//! Starts the program.

use std::{
    io::Write as _,
    process::{Child, Command, Stdio},
};

use insta::internals::SettingsBindDropGuard;

/// How a run of the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// All of it, for a snapshot.
    pub(crate) fn all(&self) -> String {
        let code = self.code.map_or("none".to_owned(), |code| code.to_string());
        format!("exit code {code}\n--- stdout\n{}--- stderr\n{}", self.stdout, self.stderr)
    }
}

/// The program with `arguments`, stdin empty, in an environment of its own.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mlxcel"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.current_dir("/");
    // No file can be made there: tests neither read nor leave what runs teach.
    command
        .env("XDG_CACHE_HOME", "/dev/null")
        .env_remove("MLXCEL_DRAFT_EVIDENCE")
        .env_remove("MLXCEL_NO_DRAFT_EVIDENCE");
    command.env("HF_HUB_CACHE", "/nonexistent/hub").env_remove("NO_COLOR");
    command
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    end(command(arguments).spawn().unwrap())
}

/// Runs the program with `input` on stdin.
pub(crate) fn run_with(input: &[u8], arguments: &[&str]) -> Ended {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    // A program that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    end(child)
}

/// Waits for the program.
pub(crate) fn end(child: Child) -> Ended {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Filters of snapshots: times, and folders made for a test.
pub(crate) fn filtered() -> SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d+\.\d+ tok/s", "[SPEED] tok/s");
    settings.add_filter(r"in \d+\.\d+ s", "in [TIME] s");
    settings.add_filter(r"/[^ \n]*/\.tmp[A-Za-z0-9]+", "[DIR]");
    settings.bind_to_scope()
}
