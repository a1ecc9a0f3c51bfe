//! Why a row of logits gives no token.

use crate::{Position, TokenId};

/// A row that cannot be decided. It fails its own request and no other.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A logit is NaN or +∞; the forward that made it went wrong. Padding columns count too.
    #[error("logits of position {position}: id {id} is {value}, expected a finite number or -inf")]
    NotANumber {
        /// Position that was to be decided.
        position: Position,
        /// Lowest id with such a logit.
        id: TokenId,
        /// NaN or +∞.
        value: f32,
    },
    /// Every id that may be emitted has the logit −∞, or every id is suppressed.
    #[error("logits of position {position}: no id that may be emitted has a finite logit")]
    NoFinite {
        /// Position that was to be decided.
        position: Position,
    },
    /// The row has not one column for each id of the vocabulary.
    #[error("logits of position {position}: {found} columns, expected {expected}")]
    Columns {
        /// Position that was to be decided.
        position: Position,
        /// Columns of the row.
        found: usize,
        /// Columns of the vocabulary.
        expected: usize,
    },
}
