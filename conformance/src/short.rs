//! A drafter that proposes less than it is asked for.

use mlxcel_core::{
    Result,
    family::{Draft, Drafter, DrafterContext, DrafterSpec, Observe, Proposals},
};

use crate::random::Numbers;

/// Leaves out the last proposals of `inner`, as many as is drawn: blocks are cut anywhere.
pub struct Short {
    inner: Box<dyn Drafter>,
    seed: u64,
}

impl Short {
    /// Around `inner`; other seeds draw other numbers.
    pub fn new(inner: Box<dyn Drafter>, seed: u64) -> Self {
        Self { inner, seed }
    }
}

impl Drafter for Short {
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
        let mut made = self.inner.propose(jobs)?;
        for (job, proposals) in jobs.iter().zip(&mut made) {
            let mut numbers = Numbers::new(self.seed ^ (job.position.0 as u64) << 20);
            proposals.truncate(numbers.below(proposals.len() + 1));
        }
        Ok(made)
    }
}
