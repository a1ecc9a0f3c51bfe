//! What a request hears of its answer.

use std::time::Duration;

use crate::{
    sampling::Decision,
    speculative::{Finish, Report},
};

/// A step of one answer. `Started` comes first, `Finished` or `Failed` last.
#[derive(Debug)]
pub enum Event {
    /// The request was admitted after it had waited this long.
    Started {
        /// Time in the queue.
        waited: Duration,
    },
    /// Tokens were decided and committed: the first one, or those of a round.
    Tokens {
        /// The tokens, in order.
        decisions: Vec<Decision>,
        /// The round that gave them; `None` for the first token, which the prompt's forward gives.
        round: Option<RoundInfo>,
    },
    /// The answer is complete.
    Finished {
        /// Why it ended.
        finish: Finish,
        /// The counters.
        report: Box<Report>,
    },
    /// The answer broke off.
    Failed(EngineError),
}

/// What one round did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundInfo {
    /// Rows of its block.
    pub width: usize,
    /// Proposals that were emitted.
    pub accepted: usize,
}

/// Why an answer broke off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The models failed on this request.
    #[error("{message}")]
    Failed {
        /// The cause.
        message: String,
    },
    /// The models panicked on this request: a fault of the program.
    #[error("internal error: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The engine stops and waits no longer.
    #[error("the server is shutting down")]
    Stopped,
    /// The reader took nothing for too long.
    #[error("the reader took nothing for {} s", .waited.as_secs())]
    SlowReader {
        /// How long it was waited for.
        waited: Duration,
    },
}
