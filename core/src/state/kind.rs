//! The kinds of state that a layer may have.

use std::fmt;

/// What a layer remembers of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StateKind {
    /// Keys and values of all rows.
    Kv,
    /// Keys and values of a window's rows.
    Window,
    /// The window of a short convolution.
    Conv,
    /// A delta net's state, with the window of its convolution.
    Delta,
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kv => "kv",
            Self::Window => "window",
            Self::Conv => "conv",
            Self::Delta => "delta",
        })
    }
}
