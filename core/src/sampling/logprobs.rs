//! Log-probabilities of the raw logits.

use crate::TokenId;
use crate::sampling::scan::Scan;
use crate::sampling::vocabulary::Vocabulary;
use crate::sampling::weight::{Softmax, mass};

/// Log-probability of one token under the model, before any bias, penalty, temperature or filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub token: TokenId,
    /// Natural logarithm of its probability; −∞ if its logit is.
    pub logprob: f64,
}

/// Log-probabilities of one emitted token and of the most probable ones.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// The token that was emitted.
    pub emitted: TokenLogprob,
    /// The most probable tokens that the tokenizer knows, best first; equal ones by id.
    pub top: Vec<TokenLogprob>,
}

/// Log-probabilities of `emitted` and of the `top` best ids, from a raw row `[columns]`.
///
/// The normaliser is over all columns, padding included: a sum in f64, in an order that only the columns fix, of
/// exponentials that are right to 2e-7.
pub(crate) fn of_row(raw: &[f32], emitted: TokenId, top: usize, vocabulary: &Vocabulary) -> TokenLogprobs {
    let (mut maxima, mut workspace, mut ranked) = (Vec::new(), Vec::new(), Vec::new());
    let row = Scan::new(raw, &mut maxima);
    let normaliser = row.best as f64 + mass(raw, Softmax { best: row.best, temperature: 1.0 }).ln();
    let of = |token: TokenId| TokenLogprob { token, logprob: raw[token.index()] as f64 - normaliser };
    // Ids that the tokenizer does not know are few, so take some more and leave those out.
    let unknown = raw.len() - vocabulary.known();
    row.best_ids(top + unknown, &mut ranked, &mut workspace);
    ranked.sort_unstable();
    let known = ranked.iter().map(|ranked| TokenId(ranked.id())).filter(|&id| vocabulary.knows(id));
    TokenLogprobs { emitted: of(emitted), top: known.take(top).map(of).collect() }
}
