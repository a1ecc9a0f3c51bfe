//! What a check says when it does not hold.

use std::io::{self, Write as _};

/// A check: `Ok` if what it asks for holds.
pub type Check = Result<(), Failure>;

/// A check that does not hold, or that ran into an error.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something differs from what must hold.
    #[error("{0}")]
    Broken(String),
    /// The engine returned an error where none may come.
    #[error("{0}")]
    Core(#[from] mlxcel_core::Error),
    /// A file that the check needs cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A checkpoint that the check wrote or reads is not usable.
    #[error("{0}")]
    Checkpoint(#[from] mlxcel_core::checkpoint::CheckpointError),
    /// A fixture is not what it should be.
    #[error("fixture: {0}")]
    Fixture(String),
}

impl Failure {
    /// Says where a failure happened: `place: what`.
    #[must_use]
    pub fn at(self, place: impl std::fmt::Display) -> Self {
        match self {
            Self::Fixture(what) => Self::Fixture(format!("{place}: {what}")),
            other => Self::Broken(format!("{place}: {other}")),
        }
    }
}

/// Adds the place to the failures of a check.
pub trait At<T> {
    /// The same result; a failure says that it happened at `place`.
    fn at(self, place: impl std::fmt::Display) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> At<T> for Result<T, E> {
    fn at(self, place: impl std::fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| error.into().at(place))
    }
}

/// Fails with a message unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        // A name of its own: a comparison with NaN does not hold, and neither does its opposite.
        let holds: bool = $holds;
        if !holds {
            return Err($crate::Failure::Broken(format!($($message)+)));
        }
    };
}

/// Says on stderr, past the capture of the test runner, what did not run; such a check never counts as passed.
pub fn say(line: impl std::fmt::Display) {
    // A closed stderr is no reason to fail a check.
    let _ = writeln!(io::stderr(), "conformance: {line}");
}
