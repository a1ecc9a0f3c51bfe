//! The engine: one thread that owns the models and every sequence.
//!
//! Requests go in, events come out, over bounded channels. One turn of the thread is a *tick*: requests whose reader has
//! gone are dropped, waiting ones are admitted, the decode and verify segments of all running sequences share one forward,
//! at most one chunk of a prompt is forwarded on its own, and at most a chunk of rows of prompts is shown to the drafter.
//!
//! What must hold:
//! * A result is independent of company: segments never see each other, and chunk borders lie at fixed positions.
//! * A failure is one request's own: after a failed forward every open block is taken back, each sequence is tried alone,
//!   and only the one that fails alone ends. A panic counts as a failure.
//! * A reader that is slow pauses its own sequence and no other; it is dropped when its patience is used up.
//! * Sequences, waiting requests, rows of a forward and bytes of states are bounded.

mod batch;
mod event;
mod guard;
mod handle;
mod limits;
mod observer;
mod session;
mod widths;
mod worker;

pub use event::{EngineError, Event, RoundInfo};
pub use handle::{Engine, Events, Phase, Ready, Starting, SubmitError};
pub use limits::Limits;
pub use observer::{Ended, Load, NoObserver, Observer};
pub use worker::EngineModels;
