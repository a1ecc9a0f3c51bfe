//! The round: draft, verify, decide, commit. Classic decoding is the same code at width 1.
//!
//! A [`Sequence`] never forwards. It hands out jobs and segments and takes back results, so that whoever drives it may
//! collect those of many sequences and call drafter and target once; [`generate`] drives one alone.
//!
//! Invariant between rounds: the state's length is prompt + emitted − 1, and the drafter's context has as many rows.

mod answer;
mod chooser;
mod drafting;
mod generate;
mod prefill;
mod report;
mod request;
mod sequence;
mod synthetic;
mod unseen;
pub mod width;

pub(crate) use prefill::{CHUNK, next_chunk};

pub use answer::{AnswerError, AnswerSettings, CheckedAnswer};
pub use drafting::Seen;
pub use generate::{Event, Generated, Models, generate, guarded};
pub use report::{Decline, Phase, Phases, Report};
pub use request::{Finish, Request, Speculation, Watch};
pub use sequence::{Sequence, Step};
pub use synthetic::Synthetic;
