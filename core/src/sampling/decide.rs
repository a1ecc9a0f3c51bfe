//! The sampler of one choice of one request.

use std::cell::RefCell;
use std::sync::Arc;

use crate::sampling::error::SamplingError;
use crate::sampling::filter::{Filter, Kept};
use crate::sampling::history::History;
use crate::sampling::logprobs::{self, TokenLogprobs};
use crate::sampling::noise::Noise;
use crate::sampling::process::process;
use crate::sampling::scan::{Ranked, Scan, first_unusable};
use crate::sampling::settings::CheckedSettings;
use crate::sampling::vocabulary::Vocabulary;
use crate::sampling::winner;
use crate::{Position, TokenId};

/// Decides every token of one choice; a pure function of its arguments.
#[derive(Clone, Debug)]
pub struct Sampler {
    settings: CheckedSettings,
    choice: u64,
    vocabulary: Arc<Vocabulary>,
    filter: Option<Filter>,
}

/// The token of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The token.
    pub token: TokenId,
    /// Its log-probabilities, if the request asked for them.
    pub logprobs: Option<TokenLogprobs>,
}

/// Buffers that outlive a row, so that no row allocates. Every row overwrites what it reads.
#[derive(Default)]
struct Scratch {
    row: Vec<f32>,
    maxima: Vec<f32>,
    workspace: Vec<f32>,
    ids: Vec<Ranked>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Sampler {
    /// The sampler of choice `choice` (choice i of `n`, prompt i of a list) of a request.
    pub fn new(settings: CheckedSettings, choice: u64, vocabulary: Arc<Vocabulary>) -> Self {
        let filter = Filter::new(&settings);
        Self { settings, choice, vocabulary, filter }
    }

    /// The settings that this sampler follows.
    pub const fn settings(&self) -> &CheckedSettings {
        &self.settings
    }

    /// The noise of the token at `position`.
    pub const fn noise(&self, position: Position) -> Noise {
        Noise::new(self.settings.seed(), self.choice, position)
    }

    /// The token at `position`, from the target's logits `[columns]`.
    ///
    /// `history` holds the tokens before `position`; `suppressed` may not be emitted at this position (the
    /// end-of-sequence ids before the least number of tokens, say).
    pub fn decide(
        &self,
        logits: &[f32],
        position: Position,
        history: &History,
        suppressed: &[TokenId],
    ) -> Result<Decision, SamplingError> {
        let token = self.pick(logits, position, history, suppressed)?;
        let logprobs =
            self.settings.logprobs.map(|top| logprobs::of_row(logits, token, top, &self.vocabulary));
        Ok(Decision { token, logprobs })
    }

    /// The proposal for `position`, from the drafter's logits `[columns]`: the same formula with the same noise, so that it
    /// is the target's token wherever both models agree.
    pub fn pick(
        &self,
        logits: &[f32],
        position: Position,
        history: &History,
        suppressed: &[TokenId],
    ) -> Result<TokenId, SamplingError> {
        self.with_row(logits, position, history, suppressed, |row, kept| {
            winner::of_row(row, kept, self.noise(position), self.settings.temperature)
        })?
        .ok_or(SamplingError::NoFinite { position })
    }

    /// The distribution that [`decide`](Self::decide) draws from: the kept ids in ascending order with softmax(l/T)
    /// normalised over them, in f64. At temperature 0, the greedy id with probability 1.
    pub fn kept_distribution(
        &self,
        logits: &[f32],
        position: Position,
        history: &History,
        suppressed: &[TokenId],
    ) -> Result<Vec<(TokenId, f64)>, SamplingError> {
        if self.settings.temperature == 0.0 {
            return Ok(vec![(self.pick(logits, position, history, suppressed)?, 1.0)]);
        }
        self.with_row(logits, position, history, suppressed, |row, kept| {
            let mut ids = Vec::new();
            row.at_least(kept.floor(), &mut ids);
            ids.retain(|&id| kept.holds(id));
            let temperature = self.settings.temperature as f64;
            let weight = |ranked: &Ranked| ((ranked.logit() as f64 - row.best as f64) / temperature).exp();
            let total: f64 = ids.iter().map(weight).sum();
            ids.iter().map(|ranked| (TokenId(ranked.id()), weight(ranked) / total)).collect()
        })
    }

    /// Processes and filters one row; `use_row` gets it with its kept ids.
    fn with_row<T>(
        &self,
        logits: &[f32],
        position: Position,
        history: &History,
        suppressed: &[TokenId],
        use_row: impl FnOnce(Scan<'_>, Kept) -> T,
    ) -> Result<T, SamplingError> {
        if logits.len() != self.vocabulary.columns() {
            let (found, expected) = (logits.len(), self.vocabulary.columns());
            return Err(SamplingError::Columns { position, found, expected });
        }
        if let Some(index) = first_unusable(logits) {
            let (id, value) = (TokenId(index as u32), logits[index]);
            return Err(SamplingError::NotANumber { position, id, value });
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { row, maxima, workspace, ids } = scratch;
            let processed = process(logits, &self.settings, &self.vocabulary, history, suppressed, row);
            let row = Scan::new(processed, maxima);
            if row.best == f32::NEG_INFINITY {
                return Err(SamplingError::NoFinite { position });
            }
            let kept = self.filter.map_or(Kept::all(), |filter| filter.keep(row, ids, workspace));
            Ok(use_row(row, kept))
        })
    }
}
