//! The answer on stdout; all else on stderr.

use std::io::{self, StdoutLock, Write};

use mlxcel_core::TokenId;

use crate::answer::{Origin, Sink};

/// Writes the answer and nothing else; ends it with a newline.
pub(crate) struct Plain {
    out: StdoutLock<'static>,
    /// Whether the last character was no newline.
    open_line: bool,
}

impl Plain {
    pub(crate) fn new() -> Self {
        Self { out: io::stdout().lock(), open_line: false }
    }
}

impl Sink for Plain {
    fn token(&mut self, _: TokenId, text: &str, _: Origin) -> io::Result<()> {
        if let Some(last) = text.chars().last() {
            self.open_line = last != '\n';
        }
        self.out.write_all(text.as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        if self.open_line {
            self.out.write_all(b"\n")?;
        }
        self.out.flush()
    }
}

/// Writes to stderr. If that is closed there is nobody to tell.
pub(crate) fn to_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Notes for people, unless they asked for quiet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notes {
    pub(crate) quiet: bool,
}

impl Notes {
    /// Writes a line.
    pub(crate) fn line(self, text: &str) {
        if !self.quiet {
            to_stderr(&format!("{text}\n"));
        }
    }
}
