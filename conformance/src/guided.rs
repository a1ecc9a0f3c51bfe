//! A drafter that knows the answer: every accepted count at will, on a real target.

use std::cell::Cell;

use mlxcel_core::{
    Error, Result, TokenId,
    family::{Confidence, Draft, Drafter, DrafterContext, DrafterSpec, Observe, Proposals},
};

use crate::random::Numbers;

/// Proposes the tokens of a known answer, wrong from a chosen place on. Context and forward are those of the real
/// drafter, whose own proposals are thrown away.
pub struct Guided {
    inner: Box<dyn Drafter>,
    /// Tokens of the prompt.
    prompt: usize,
    answer: Vec<TokenId>,
    vocab: usize,
    /// Right proposals of the rounds to come, over and over.
    right: Vec<usize>,
    round: Cell<usize>,
}

impl Guided {
    /// Guides `inner` along `answer` to a prompt of `prompt` tokens: round i has `right[i mod n]` right proposals, and
    /// wrong ones after them.
    pub fn new(
        inner: Box<dyn Drafter>,
        prompt: usize,
        answer: &[TokenId],
        vocab: usize,
        right: &[usize],
    ) -> Self {
        let (answer, right) = (answer.to_vec(), right.to_vec());
        Self { inner, prompt, answer, vocab, right, round: Cell::new(0) }
    }

    /// The real drafter again.
    pub fn into_inner(self) -> Box<dyn Drafter> {
        self.inner
    }

    /// What it says of `proposals`: mostly the truth, sometimes the contrary, and now and then what is no chance at all, or
    /// not enough of them.
    fn confidence(&self, position: usize, proposals: &[TokenId]) -> Confidence {
        let mut numbers = Numbers::new(position as u64);
        let next = position + 1 - self.prompt;
        let mut truth = |(i, proposal): (usize, &TokenId)| {
            let right = self.answer.get(next + i) == Some(proposal);
            if right == (numbers.below(6) > 0) { 0.9 } else { 0.1 }
        };
        let mut confidence: Confidence = proposals.iter().enumerate().map(&mut truth).collect();
        match numbers.below(24) {
            0 => drop(confidence.pop()),
            1 => confidence.iter_mut().for_each(|chance| *chance = f32::NAN),
            2 => confidence.iter_mut().for_each(|chance| *chance += 1.0),
            _ => {}
        }
        confidence
    }

    fn proposals(&self, position: usize, count: usize) -> Proposals {
        let round = self.round.replace(self.round.get() + 1);
        let right = self.right[round % self.right.len()];
        let next = position + 1 - self.prompt;
        let token = |i: usize| match self.answer.get(next + i) {
            Some(token) if i < right => *token,
            Some(token) => TokenId((token.0 + 1) % self.vocab as u32),
            None => TokenId(0),
        };
        (0..count).map(token).collect()
    }
}

impl Drafter for Guided {
    fn spec(&self) -> &DrafterSpec {
        self.inner.spec()
    }

    fn new_context(&self) -> DrafterContext {
        self.inner.new_context()
    }

    fn observe(&self, jobs: &mut [Observe<'_>]) -> Result<()> {
        self.inner.observe(jobs)
    }

    fn propose(&self, jobs: &mut [Draft<'_>]) -> Result<Vec<Proposals>> {
        let made = self.inner.propose(jobs)?;
        if made.len() != jobs.len() {
            return Err(Error::Shape { what: "lists of proposals", found: made.len(), expected: jobs.len() });
        }
        let propose = |job: &mut Draft<'_>| {
            let proposals = self.proposals(job.position.0, job.count);
            if let Some(confidence) = job.confidence.as_deref_mut() {
                *confidence = self.confidence(job.position.0, &proposals);
            }
            proposals
        };
        Ok(jobs.iter_mut().map(propose).collect())
    }
}
