//! The ids that may be emitted at all.

use crate::TokenId;

/// Which columns of a row of logits are tokens that may be emitted: known to the tokenizer and not suppressed.
///
/// A property of the model, shared by its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    columns: usize,
    /// Columns from here on are all unknown to the tokenizer: padding of the head.
    end: usize,
    unknown: Vec<TokenId>,
    suppressed: Vec<TokenId>,
}

impl Vocabulary {
    /// A vocabulary of `columns` logits; `known` says which ids the tokenizer knows, `suppressed` lists ids that the
    /// model's configuration never emits. A suppressed id without a column changes nothing.
    pub fn new(columns: usize, known: impl Fn(TokenId) -> bool, suppressed: &[TokenId]) -> Self {
        let id = |index| TokenId(index as u32);
        let end = (0..columns).rev().find(|&index| known(id(index))).map_or(0, |last| last + 1);
        let unknown = (0..end).map(id).filter(|&id| !known(id)).collect();
        let suppressed = suppressed.iter().copied().filter(|id| id.index() < end).collect();
        Self { columns, end, unknown, suppressed }
    }

    /// All `columns` ids may be emitted.
    pub fn all(columns: usize) -> Self {
        Self { columns, end: columns, unknown: Vec::new(), suppressed: Vec::new() }
    }

    /// Columns of a row of logits.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// One more than the highest id that the tokenizer knows.
    pub const fn end(&self) -> usize {
        self.end
    }

    /// Ids that the tokenizer knows.
    pub fn known(&self) -> usize {
        self.end - self.unknown.len()
    }

    /// Whether the tokenizer knows `id`.
    pub fn knows(&self, id: TokenId) -> bool {
        id.index() < self.end && self.unknown.binary_search(&id).is_err()
    }

    /// Ids below [`Self::end`] that may not be emitted.
    pub(crate) fn dropped(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.unknown.iter().chain(&self.suppressed).copied()
    }

    /// Whether every id below [`Self::end`] may be emitted.
    pub(crate) const fn has_no_holes(&self) -> bool {
        self.unknown.is_empty() && self.suppressed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_holes_and_suppressed_ids_are_told_apart() {
        let vocabulary =
            Vocabulary::new(10, |id| id.0 < 7 && id.0 != 3, &[TokenId(1), TokenId(8), TokenId(99)]);
        assert_eq!((vocabulary.columns(), vocabulary.end()), (10, 7));
        assert_eq!(vocabulary.dropped().collect::<Vec<_>>(), [TokenId(3), TokenId(1)]);
        assert!(
            vocabulary.knows(TokenId(1)) && !vocabulary.knows(TokenId(3)) && !vocabulary.knows(TokenId(7))
        );
        assert!(Vocabulary::all(4).has_no_holes() && !vocabulary.has_no_holes());
    }

    #[test]
    fn a_tokenizer_that_knows_nothing_leaves_nothing() {
        assert_eq!(Vocabulary::new(5, |_| false, &[]).end(), 0);
    }
}
