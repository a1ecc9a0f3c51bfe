//! Segments: runs of tokens of one sequence, many of which share a forward.

use super::Target;
use crate::{Error, Result, TokenId, nn::Tensor, state::SequenceState};

/// A run of tokens of one sequence.
pub struct Segment<'a> {
    /// The tokens, at the positions that follow the state's length.
    pub tokens: &'a [TokenId],
    /// The sequence's state; the forward appends one row a token.
    pub state: &'a mut SequenceState,
    /// What the forward gives back for this segment.
    pub want: Want<'a>,
}

/// Which results of a segment are wanted. Nothing else is computed: a prompt never makes `[prompt, vocab]` logits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Want<'a> {
    /// Rows whose logits are wanted.
    pub logits: LogitRows,
    /// Layers whose residual stream a drafter reads, strictly increasing.
    pub taps: &'a [usize],
}

/// Rows of a segment whose logits are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogitRows {
    /// None: a prefill chunk that is not the last.
    #[default]
    None,
    /// The last row: the end of a prompt.
    Last,
    /// Every row: a verify block.
    All,
}

impl LogitRows {
    /// Wanted rows of a segment of `rows`; they are its last ones.
    pub fn count(self, rows: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Last => 1,
            Self::All => rows,
        }
    }
}

/// What a forward gives back for a segment.
#[derive(Clone, Debug)]
pub struct Output {
    /// Logits of the wanted rows, `[wanted, vocab]`.
    pub logits: Option<Tensor>,
    /// The wanted taps of all rows side by side, `[rows, taps · hidden]`, if any were wanted.
    pub taps: Option<Tensor>,
}

/// One forward over all segments; one after the other where the family takes a single segment only. Either way each gets
/// what it gets alone.
pub fn forward(target: &dyn Target, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
    let wrong = |found, expected| Error::Shape { what: "outputs of a forward", found, expected };
    let outputs = if target.spec().supports_batched {
        target.forward(segments)?
    } else {
        let mut outputs = Vec::with_capacity(segments.len());
        for segment in segments.iter_mut() {
            let mut one = target.forward(std::slice::from_mut(segment))?;
            let found = one.len();
            outputs.push(one.pop().filter(|_| found == 1).ok_or_else(|| wrong(found, 1))?);
        }
        outputs
    };
    if outputs.len() == segments.len() {
        return Ok(outputs);
    }
    Err(wrong(outputs.len(), segments.len()))
}

/// A forward over one segment.
pub fn forward_one(target: &dyn Target, segment: Segment<'_>) -> Result<Output> {
    let wrong = Error::Shape { what: "outputs of a forward", found: 0, expected: 1 };
    forward(target, &mut [segment])?.pop().ok_or(wrong)
}
