//! Synthetic acceptance: the loop measured alone, at rates that are given.

use crate::{
    Result, TokenId,
    family::{Draft, Drafter, DrafterContext, DrafterSpec, Observe, Proposals},
    sampling::Seed,
};

/// A drafter that costs what the one inside costs, and proposes what a recorded classic run emitted: the proposal at
/// position i of a block is right with probability `rates[i]`, and wrong otherwise. Positions past the rates use the last
/// of them.
///
/// For measuring: models with random weights have no acceptance of their own.
pub struct Synthetic {
    inner: Box<dyn Drafter>,
    rates: Vec<f64>,
    vocab: usize,
    seed: Seed,
    /// Tokens of the recorded run, prompt and answer, by position.
    run: Vec<TokenId>,
}

impl Synthetic {
    /// Around `inner`, for a target of `vocab` ids.
    pub fn new(inner: Box<dyn Drafter>, rates: Vec<f64>, vocab: usize, seed: Seed) -> Self {
        Self { inner, rates, vocab, seed, run: Vec::new() }
    }

    /// Records a classic run: the tokens of prompt and answer.
    pub fn record(&mut self, prompt: &[TokenId], answer: &[TokenId]) {
        self.run = [prompt, answer].concat();
    }

    /// The proposal for `position`, the one at index `i` of its block.
    fn proposal(&self, i: usize, position: usize) -> TokenId {
        let right = self.run.get(position).copied().unwrap_or(TokenId(0));
        let rate = self.rates.get(i).or(self.rates.last()).copied().unwrap_or(0.0);
        if uniform(self.seed.0, position as u64) < rate {
            right
        } else {
            TokenId((right.0 + 1) % self.vocab as u32)
        }
    }
}

/// A number in 0..1 that depends on its arguments only (splitmix64).
fn uniform(seed: u64, index: u64) -> f64 {
    let mut x = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 * (-53f64).exp2()
}

impl Drafter for Synthetic {
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
        let mut all = self.inner.propose(jobs)?;
        for (proposals, job) in all.iter_mut().zip(jobs) {
            // What the drafter thinks of its own proposals says nothing of these.
            job.confidence.iter_mut().for_each(|confidence| confidence.clear());
            for (i, proposal) in proposals.iter_mut().enumerate() {
                *proposal = self.proposal(i, job.position.0 + 1 + i);
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::uniform;

    #[test]
    fn rates_are_met() {
        for rate in [0.0, 0.3, 0.9, 1.0] {
            let kept = (0..20_000).filter(|&i| uniform(7, i) < rate).count() as f64 / 20_000.0;
            assert!((kept - rate).abs() < 0.01, "{kept} of {rate}");
        }
    }
}
