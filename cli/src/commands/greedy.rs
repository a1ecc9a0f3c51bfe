//! Tokens as a greedy request decides them, for commands that measure forwards: logits that no request could be decided from
//! are an error here too.

use std::sync::Arc;

use mlxcel_core::{
    Position, Result, TokenId,
    family::Pick,
    sampling::{History, Sampler, SamplingSettings, SettingsError, Vocabulary},
};

/// The likeliest token of a row.
pub(super) struct Greedy {
    sampler: Sampler,
    history: History,
    /// Of the token that the next row is for; for messages only.
    position: Position,
}

impl Greedy {
    /// For rows of `columns` logits, the first of them for the token at `position`.
    pub(super) fn new(columns: usize, position: Position) -> std::result::Result<Self, SettingsError> {
        let settings = SamplingSettings { temperature: 0.0, ..SamplingSettings::default() };
        let vocabulary = Arc::new(Vocabulary::all(columns));
        let sampler = Sampler::new(settings.validate(columns)?, 0, vocabulary);
        Ok(Self { sampler, history: History::new(&[]), position })
    }

    /// Whether every row of `logits`, `[rows, columns]`, gives a token.
    ///
    /// # Errors
    /// That of a request: a logit that is no number.
    pub(super) fn check(&mut self, logits: &[f32], columns: usize) -> Result<()> {
        logits.chunks_exact(columns).try_for_each(|row| self.pick(row).map(drop))
    }
}

impl Pick for Greedy {
    fn pick(&mut self, logits: &[f32]) -> Result<TokenId> {
        let position = self.position;
        self.position = position.plus(1);
        Ok(self.sampler.pick(logits, position, &self.history, &[])?)
    }
}
