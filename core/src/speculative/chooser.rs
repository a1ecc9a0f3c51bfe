//! The request's own way to choose tokens, for the target's rows and the drafter's alike.

use std::sync::Arc;

use crate::{
    Position, Result, TokenId,
    family::Pick,
    sampling::{Decision, History, Sampler},
};

/// Sampler, history and next position of one request.
pub(super) struct Chooser {
    sampler: Arc<Sampler>,
    history: History,
    /// Tokens of the prompt.
    prompt: usize,
    /// Tokens chosen since the last [`Self::rewind`] that are not emitted.
    ahead: usize,
    eos: Vec<TokenId>,
    min_tokens: usize,
}

impl Chooser {
    pub(super) fn new(sampler: Sampler, prompt: &[TokenId], eos: Vec<TokenId>, min_tokens: usize) -> Self {
        let (sampler, history) = (Arc::new(sampler), History::new(prompt));
        Self { sampler, history, prompt: prompt.len(), ahead: 0, eos, min_tokens }
    }

    /// Position of the token to be chosen next.
    fn position(&self) -> Position {
        Position(self.prompt + self.history.output().len())
    }

    /// End tokens may not come before `min_tokens`.
    fn suppressed(&self) -> &[TokenId] {
        if self.history.output().len() < self.min_tokens { &self.eos } else { &[] }
    }

    /// The target's token from its logits; it is emitted.
    pub(super) fn decide(&mut self, logits: &[f32]) -> Result<Decision> {
        debug_assert_eq!(self.ahead, 0, "proposals are taken back before the target decides");
        let decision = self.sampler.decide(logits, self.position(), &self.history, self.suppressed())?;
        self.history.push(decision.token);
        Ok(decision)
    }

    /// Takes the proposals out of the history again.
    pub(super) fn rewind(&mut self) {
        self.history.truncate(self.history.output().len() - self.ahead);
        self.ahead = 0;
    }

    /// Keeps the first `emitted` tokens of the answer.
    pub(super) fn take_back_to(&mut self, emitted: usize) {
        self.history.truncate(emitted);
    }

    pub(super) fn is_eos(&self, token: TokenId) -> bool {
        self.eos.contains(&token)
    }

    /// Tokens emitted.
    pub(super) fn emitted(&self) -> &[TokenId] {
        &self.history.output()[..self.history.output().len() - self.ahead]
    }
}

impl Pick for Chooser {
    fn pick(&mut self, logits: &[f32]) -> Result<TokenId> {
        let token = self.sampler.pick(logits, self.position(), &self.history, self.suppressed())?;
        self.history.push(token);
        self.ahead += 1;
        Ok(token)
    }
}
