//! A target and a drafter without weights: logits are a hash of the history, so that loops run in milliseconds and a
//! naive loop can tell what must come out.
//!
//! The target reads its history back from a real key and value state and a real convolution window, and the drafter from
//! the taps it was handed: a row too many, too few or out of place changes the logits of everything after it.

mod drafter;
mod script;
mod spoken;
mod target;

pub mod reference;

pub use drafter::ScriptedDrafter;
pub use script::Script;
pub use spoken::SpokenTarget;
pub use target::{HIDDEN, ScriptedTarget};
