//! The tokens of a sequence so far, counted for the penalties.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::TokenId;

/// Prompt and output of one sequence, counted by id.
///
/// Row i of a block is decided with the history extended by d1…di: [`push`](Self::push) each proposal before its row, and
/// [`pop`](Self::pop) or [`truncate`](Self::truncate) what was not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    output: Vec<TokenId>,
    counts: HashMap<TokenId, Count>,
}

/// How often an id occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    in_prompt: bool,
    /// Occurrences in the output.
    pub(crate) output: u32,
}

impl History {
    /// The history of a sequence that has a prompt and no output.
    pub fn new(prompt: &[TokenId]) -> Self {
        let prompted = Count { in_prompt: true, output: 0 };
        Self { output: Vec::new(), counts: prompt.iter().map(|&id| (id, prompted)).collect() }
    }

    /// Appends a token to the output.
    pub fn push(&mut self, token: TokenId) {
        self.output.push(token);
        self.counts.entry(token).or_default().output += 1;
    }

    /// Takes the newest output token back, if there is one.
    pub fn pop(&mut self) -> Option<TokenId> {
        let token = self.output.pop()?;
        if let Entry::Occupied(mut entry) = self.counts.entry(token) {
            let count = entry.get_mut();
            count.output -= 1;
            if *count == Count::default() {
                entry.remove();
            }
        }
        Some(token)
    }

    /// Takes output tokens back until `len` are left.
    pub fn truncate(&mut self, len: usize) {
        while self.output.len() > len {
            self.pop();
        }
    }

    /// The output so far.
    pub fn output(&self) -> &[TokenId] {
        &self.output
    }

    /// Every id of prompt or output once, in no particular order.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (TokenId, Count)> + '_ {
        self.counts.iter().map(|(&id, &count)| (id, count))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(raw: &[u32]) -> Vec<TokenId> {
        raw.iter().copied().map(TokenId).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn taking_back_restores_the_history(
            prompt in prop::collection::vec(0_u32..8, 0..12),
            kept in prop::collection::vec(0_u32..8, 0..12),
            block in prop::collection::vec(0_u32..8, 0..12),
        ) {
            let mut history = History::new(&ids(&prompt));
            for id in ids(&kept) {
                history.push(id);
            }
            let before = history.clone();
            for id in ids(&block) {
                history.push(id);
            }
            for (id, count) in history.counts() {
                let all: Vec<u32> = kept.iter().chain(&block).copied().collect();
                prop_assert_eq!(count.output as usize, all.iter().filter(|&&other| other == id.0).count());
                prop_assert!(count.output > 0 || prompt.contains(&id.0));
            }
            history.truncate(kept.len());
            prop_assert_eq!(&history, &before);
            prop_assert_eq!(history.output(), &ids(&kept)[..]);
        }
    }

    #[test]
    fn an_empty_output_has_nothing_to_take_back() {
        let mut history = History::new(&ids(&[1, 2]));
        assert_eq!(history.pop(), None);
        assert_eq!(history, History::new(&ids(&[2, 1, 1])));
    }
}
