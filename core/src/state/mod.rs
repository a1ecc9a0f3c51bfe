//! What a sequence remembers between forwards, and how a block is taken back.
//!
//! * S1: after `commit(k)` a state holds what it would hold had it decoded those `k` tokens one by one.
//! * S2: all layers of a sequence have the same length; [`SequenceState::len`] says so or fails.
//! * S3: decode rows, width 1 too, always open a block; prefill opens none.
//! * S5: a state is written only while its `&mut` borrow lives.

mod block;
mod contents;
mod conv;
mod delta;
mod error;
mod kind;
mod kv;
mod layer;
mod sequence;
mod window;

pub use conv::ConvState;
pub use delta::DeltaState;
pub use error::StateError;
pub use kind::StateKind;
pub use kv::KvState;
pub use layer::LayerState;
pub use sequence::SequenceState;
pub use window::WindowState;

#[cfg(test)]
mod tests;
