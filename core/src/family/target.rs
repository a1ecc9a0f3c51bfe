//! The target: the model whose tokens count.

use super::{Output, Segment};
use crate::{
    Result, TokenId, Width,
    nn::{Embedding, Linear},
    state::SequenceState,
};

/// What the rest of the system needs to know of a target.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetSpec {
    /// Name of its family.
    pub family: &'static str,
    /// Decoder layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Rows of the embedding table and of the head.
    pub vocab: usize,
    /// Rows that a sequence may have.
    pub context: usize,
    /// Whether the operators take more than one segment in a forward.
    pub supports_batched: bool,
    /// Name of the drafter family that this target needs, if only one fits.
    pub required_drafter_family: Option<&'static str>,
    /// Ids that are never emitted.
    pub suppressed: Vec<TokenId>,
}

/// A model whose tokens count. One thread owns it.
pub trait Target: Send {
    /// Its description.
    fn spec(&self) -> &TargetSpec;

    /// The state of an empty sequence whose blocks have at most `slack` rows.
    fn new_state(&self, slack: Width) -> SequenceState;

    /// One forward over the rows of all segments, in order; appends each segment's rows to its state.
    ///
    /// On an error states may be left between rows: their blocks are taken back with `commit(0)`.
    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>>;

    /// The raw embedding table, as drafters need it.
    fn embedding(&self) -> Embedding;

    /// The raw output matrix, tied or not, without a final norm or a logit transform.
    fn head(&self) -> Linear;
}
