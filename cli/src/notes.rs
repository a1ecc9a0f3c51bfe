//! Stderr: notes for people, which never fail.

use std::io::{self, Write as _};

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
