//! Deciding a token: one function decides every token of every request, with a drafter or without.
//!
//! ```text
//! token(t) = the lowest id v that maximises  l(v) + T · G(seed, choice, t, v)   over the kept ids, in f32
//! ```
//!
//! `G` is Gumbel noise that depends on nothing but its four arguments, so the stream of a seed is an exact sample of the
//! target and does not depend on whether, how wide, or with which drafter it was speculated (drafter-invariant
//! speculative decoding: Daliri, Musco, Suresh 2024, arXiv 2408.07978). The drafter picks its proposal by the same
//! formula with the same noise, and a proposal is accepted when it equals the target's token.
//!
//! | file | idea |
//! | --- | --- |
//! | [`settings`] | what a request asks for, and the check of it |
//! | [`seed`] | 64 bits that fix the noise of a request |
//! | [`vocabulary`] | the ids that may be emitted at all |
//! | [`history`] | the tokens so far, counted for the penalties |
//! | `process` | suppression, logit bias, penalties |
//! | `scan` | one look at a row: is it usable, and where are its large logits |
//! | `weight` | softmax(l/T) before it is normalised |
//! | `filter` | top-k, top-p, min-p: the kept ids |
//! | [`noise`] | `G`, its exact algorithm and its bounds |
//! | `winner` | the id with the highest score |
//! | [`decide`] | the [`Sampler`] that puts these together |
//! | [`logprobs`] | log-probabilities of the raw logits |
//!
//! Everything works on one row of logits (`&[f32]`, `[columns]`) in an order that does not depend on how many other rows
//! there are.

pub mod decide;
pub mod error;
mod filter;
pub mod history;
pub mod logprobs;
pub mod noise;
mod process;
mod scan;
pub mod seed;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod vocabulary;
mod weight;
mod winner;

pub use decide::{Decision, Sampler};
pub use error::SamplingError;
pub use history::History;
pub use logprobs::{TokenLogprob, TokenLogprobs};
pub use noise::Noise;
pub use seed::Seed;
pub use settings::{CheckedSettings, MAX_LOGPROBS, SamplingSettings, SettingsError, bias_id};
pub use vocabulary::Vocabulary;
