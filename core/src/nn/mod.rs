//! The operators that models are written in. A family calls these and never asks where they run.
//!
//! Activations are [`Tensor`]s of shape `[rows, width]`: the concatenated rows of all segments of a forward.
//! Position-wise operators act on all rows at once; [`Attention`], [`ShortConv`] and [`GatedDelta`] loop over the
//! segments, each with its own state.
//!
//! Invariant: an operator's result for a row depends on that row (and its sequence's state) only.

mod activation;
mod attention;
mod batch;
mod conv;
mod cpu;
mod delta;
mod embedding;
mod executor;
mod linear;
mod loader;
pub(crate) mod mlx;
mod norm;
mod rope;
mod tensor;

pub use activation::{scale, sigmoid_mul, silu_mul, softcap};
pub use attention::{Attention, Mask};
pub use batch::{Batch, Span};
pub use conv::ShortConv;
pub use delta::{DeltaDims, DeltaWeights, GatedDelta};
pub use embedding::Embedding;
pub use executor::{Executor, isa, set_threads, threads};
pub use linear::Linear;
pub use loader::Loader;
pub use norm::RmsNorm;
pub use rope::{Rope, RopeStyle};
pub use tensor::Tensor;
