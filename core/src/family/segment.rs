//! Segments: runs of tokens of one sequence, many of which share a forward.

use crate::{TokenId, nn::Tensor, state::SequenceState};

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
