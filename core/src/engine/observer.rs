//! Who watches the engine: metrics.

use std::time::Duration;

use super::{EngineError, RoundInfo};
use crate::speculative::{Finish, Report};

/// What the engine is busy with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Sequences that run, paused ones included.
    pub running: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Bytes set aside for the states of running sequences, by estimate.
    pub bytes: usize,
}

/// How a request ended.
#[derive(Debug)]
pub enum Ended<'a> {
    /// Its answer is complete.
    Finished(Finish),
    /// It failed.
    Failed(&'a EngineError),
    /// Its reader has gone.
    Cancelled,
}

/// Sees what happens in the engine, on the engine's thread: it must not block.
pub trait Observer: Send + Sync {
    /// What the engine is busy with changed.
    fn load(&self, load: Load) {
        let _ = load;
    }

    /// A request was admitted after it had waited this long.
    fn admitted(&self, waited: Duration) {
        let _ = waited;
    }

    /// A request got its first token, this long after it came.
    fn first_token(&self, after: Duration) {
        let _ = after;
    }

    /// A round emitted tokens, this long after the ones before.
    fn round(&self, round: RoundInfo, emitted: usize, took: Duration) {
        let _ = (round, emitted, took);
    }

    /// A request ended, this long after it came; one that was never admitted has an empty report.
    fn ended(&self, how: &Ended<'_>, report: &Report, after: Duration) {
        let _ = (how, report, after);
    }
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}
