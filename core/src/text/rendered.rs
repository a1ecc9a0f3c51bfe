//! The text of a prompt in which it is known who wrote which control token.

use super::controls::MARK;

/// A chat template's output. Control tokens inside the contents of messages are marked as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    marked: String,
}

impl Rendered {
    pub(super) fn new(marked: String) -> Self {
        Self { marked }
    }

    /// The prompt as people read it.
    pub fn text(&self) -> String {
        self.marked.replace(MARK, "")
    }

    /// The prompt with the marks.
    pub(super) fn marked(&self) -> &str {
        &self.marked
    }
}
