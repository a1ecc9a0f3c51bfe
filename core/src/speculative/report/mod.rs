//! What a request cost and what speculation gave: one struct for the closing line, `--stats json`, the benchmark and the
//! server.

mod decline;
mod json;
mod phase;

use std::{collections::BTreeMap, time::Duration};

pub use decline::Decline;
pub use phase::{Phase, Phases};

use crate::{
    Width,
    exactness::{Refusal, Verdict},
    family::DraftKind,
    sampling::Seed,
};

/// Counters of one request. They agree with the emitted tokens and the state after every round.
///
/// Serialised, it is one flat object of snake_case names with times in seconds, the derived figures among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The loop that the drafter runs in; `None` without a drafter.
    pub kind: Option<DraftKind>,
    /// Family of the drafter; `None` without one.
    pub family: Option<&'static str>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens emitted, an end token included.
    pub emitted: usize,
    /// Rounds after the first token, which the prompt's forward gives.
    pub rounds: usize,
    /// Tokens proposed.
    pub proposed: usize,
    /// Proposals accepted and emitted.
    pub accepted: usize,
    /// Proposals by their position in the block, the first at index 0.
    pub proposed_by_position: Vec<usize>,
    /// Accepted proposals by position.
    pub accepted_by_position: Vec<usize>,
    /// The width that the request may use at most; rounds near the end of an answer are narrower. `None` for a request
    /// that does not speculate.
    pub width: Option<Width>,
    /// Whether the widths are chosen by what is measured.
    pub adaptive: bool,
    /// Rounds by width.
    pub widths: BTreeMap<usize, usize>,
    /// Whether the drafter's confidence decided how many of its proposals were checked, in some round at least.
    pub confidence_used: bool,
    /// Rows that were left out by it.
    pub rows_cut: usize,
    /// Why the request was served classically, if it was.
    pub decline: Option<Decline>,
    /// What the exactness gate knows of the widths that the request may use; empty without a gate.
    pub verdicts: Vec<Verdict>,
    /// What `--allow-inexact` passed over, if a block ran of a width that is not known to be exact.
    pub inexact: Option<Refusal>,
    /// The seed.
    pub seed: Option<Seed>,
    /// Time of the prompt's forwards, up to the first token.
    pub prefill_time: Duration,
    /// Time of the rounds, and of observing the prompt.
    pub decode_time: Duration,
    /// The decode time, by what was done.
    pub phases: Phases,
}

impl Report {
    /// Tokens per round: (emitted − the first) / rounds.
    pub fn tokens_per_round(&self) -> f64 {
        if self.rounds == 0 { 0.0 } else { self.after_first() / self.rounds as f64 }
    }

    /// Tokens per second after the first.
    pub fn tokens_per_second(&self) -> f64 {
        let seconds = self.decode_time.as_secs_f64();
        if seconds == 0.0 { 0.0 } else { self.after_first() / seconds }
    }

    /// Seconds of a round, on average: decode time / rounds.
    pub fn round_seconds(&self) -> f64 {
        if self.rounds == 0 { 0.0 } else { self.decode_time.as_secs_f64() / self.rounds as f64 }
    }

    /// The verdicts in words, by width, as `mlxcel doctor` says them.
    pub fn verdicts_in_words(&self) -> BTreeMap<usize, String> {
        self.verdicts.iter().map(|verdict| (verdict.width.rows(), verdict.to_string())).collect()
    }

    fn after_first(&self) -> f64 {
        self.emitted.saturating_sub(1) as f64
    }

    /// Counts a round of `width` rows whose first `accepted` proposals were emitted.
    pub(super) fn round(&mut self, width: Width, accepted: usize) {
        self.rounds += 1;
        self.proposed += width.proposals();
        self.accepted += accepted;
        *self.widths.entry(width.rows()).or_default() += 1;
        let positions = self.proposed_by_position.len().max(width.proposals());
        self.proposed_by_position.resize(positions, 0);
        self.accepted_by_position.resize(positions, 0);
        self.proposed_by_position[..width.proposals()].iter_mut().for_each(|count| *count += 1);
        self.accepted_by_position[..accepted].iter_mut().for_each(|count| *count += 1);
    }
}
