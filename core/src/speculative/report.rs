//! What a request cost and what speculation gave.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{Width, exactness::Refusal, sampling::Seed};

/// Counters of one request. They agree with the emitted tokens and the state after every round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
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
    /// Rounds by width.
    pub widths: BTreeMap<usize, usize>,
    /// Why the request was served classically, if it was.
    pub decline: Option<Decline>,
    /// What `--allow-inexact` passed over, if a block ran of a width that is not known to be exact.
    pub inexact: Option<Refusal>,
    /// The seed.
    pub seed: Option<Seed>,
    /// Time of the prompt's forwards, up to the first token.
    pub prefill_time: Duration,
    /// Time of the rounds, and of observing the prompt.
    pub decode_time: Duration,
}

impl Report {
    /// Tokens per round: (emitted − the first) / rounds.
    pub fn tokens_per_round(&self) -> f64 {
        if self.rounds == 0 { 0.0 } else { self.emitted.saturating_sub(1) as f64 / self.rounds as f64 }
    }

    /// Tokens per second after the first.
    pub fn tokens_per_second(&self) -> f64 {
        let seconds = self.decode_time.as_secs_f64();
        if seconds == 0.0 { 0.0 } else { self.emitted.saturating_sub(1) as f64 / seconds }
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

/// Why a request is served without speculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decline {
    /// There is no drafter.
    NoDrafter,
    /// The request asked for it.
    Requested,
    /// The width is 1.
    WidthOne,
    /// The drafter failed on the way; the log says how.
    DrafterFailed,
    /// The width is not known to give the tokens of classic decoding.
    Exactness(Refusal),
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoDrafter => "no drafter is loaded",
            Self::Requested => "speculation is switched off",
            Self::WidthOne => "the block size is 1",
            Self::DrafterFailed => "the drafter failed",
            Self::Exactness(refusal) => return write!(f, "exactness: {refusal}"),
        })
    }
}
