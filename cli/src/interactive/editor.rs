//! The line editor and its history.

use std::{
    env, fs, io, mem,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rustyline::{DefaultEditor, config::Config, error::ReadlineError};

use super::input::Entry;

/// Lines that the history keeps.
const HISTORY: usize = 1000;

/// Reads messages from the terminal.
pub(super) struct Editor {
    lines: DefaultEditor,
    history: Option<PathBuf>,
}

/// What the user did.
#[derive(Debug)]
pub(super) enum Read {
    Message(String),
    /// Ctrl-C: the line is dropped.
    Dropped,
    /// Bytes that are no UTF-8: they are dropped, with all that was typed or pasted beside them.
    Garbled,
    /// Ctrl-D.
    End,
}

impl Editor {
    /// An editor with the history of earlier sessions.
    pub(super) fn new() -> Result<Self> {
        let mut lines = line_editor()?;
        let history = history_file(|name| env::var_os(name).map(PathBuf::from));
        if let Some(file) = &history {
            // The first session has none.
            let _ = lines.load_history(file);
        }
        Ok(Self { lines, history })
    }

    /// The next message, of one line or several.
    pub(super) fn read(&mut self) -> Result<Read> {
        let mut entry = Entry::default();
        loop {
            let prompt = if entry.is_open() { "... " } else { ">>> " };
            match self.lines.readline(prompt) {
                Ok(line) => {
                    if let Some(message) = entry.line(&line) {
                        self.remember(&message);
                        return Ok(Read::Message(message));
                    }
                }
                Err(ReadlineError::Interrupted) => return Ok(Read::Dropped),
                Err(ReadlineError::Eof) => return Ok(Read::End),
                Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                    self.forget_what_is_typed()?;
                    return Ok(Read::Garbled);
                }
                Err(error) => return Err(error).context("cannot read from the terminal"),
            }
        }
    }

    /// Drops what was read ahead: half a pasted text is no message. The history stays.
    fn forget_what_is_typed(&mut self) -> Result<()> {
        let history = mem::take(self.lines.history_mut());
        self.lines = line_editor()?;
        *self.lines.history_mut() = history;
        Ok(())
    }

    fn remember(&mut self, message: &str) {
        if !message.trim().is_empty() {
            let _ = self.lines.add_history_entry(message);
        }
    }

    /// Keeps the history for later sessions. A history that cannot be kept is no reason to fail.
    pub(super) fn save(&mut self) {
        let Some(file) = &self.history else { return };
        let folder = file.parent().unwrap_or(Path::new("."));
        let saved = fs::create_dir_all(folder)
            .map_err(|error| error.to_string())
            .and_then(|()| self.lines.save_history(file).map_err(|error| error.to_string()));
        if let Err(error) = saved {
            tracing::warn!("the history is not kept in {}: {error}", file.display());
        }
    }
}

fn line_editor() -> Result<DefaultEditor> {
    let config = Config::builder().max_history_size(HISTORY)?.auto_add_history(false).build();
    DefaultEditor::with_config(config).context("cannot use the terminal")
}

/// `mlxcel/history` among the user's state files (XDG Base Directory Specification).
fn history_file(var: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name| var(name).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("mlxcel/history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_where_xdg_says() {
        let file = |state: Option<&str>, home: Option<&str>| {
            history_file(|name| if name == "HOME" { home } else { state }.map(PathBuf::from))
        };
        assert_eq!(file(Some("/s"), Some("/h")), Some("/s/mlxcel/history".into()));
        assert_eq!(file(None, Some("/h")), Some("/h/.local/state/mlxcel/history".into()));
        assert_eq!(file(Some("relative"), Some("/h")), Some("/h/.local/state/mlxcel/history".into()));
        assert_eq!(file(None, None), None);
    }
}
