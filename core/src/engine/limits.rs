//! What bounds an engine.

use std::time::Duration;

/// Bounds of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sequences that run at once, at least 1.
    pub parallel: usize,
    /// Requests that may wait for a place among them.
    pub queue: usize,
    /// Rows that a sequence may have; the target's own context if that is less.
    pub context: usize,
    /// Rows of one forward over the blocks of all sequences, at least 1.
    pub rows: usize,
    /// Bytes that the states of all running sequences may take together, by estimate.
    pub memory: usize,
    /// Rounds that may wait for a reader before its sequence is paused, at least 1.
    pub buffer: usize,
    /// How long a paused sequence waits for its reader.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            parallel: 4,
            queue: 64,
            context: usize::MAX,
            rows: 64,
            memory: 4 << 30,
            buffer: 256,
            patience: Duration::from_secs(30),
        }
    }
}
