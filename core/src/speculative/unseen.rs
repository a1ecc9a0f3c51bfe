//! Taps of committed rows that the drafter has not seen.

use crate::{Result, nn::Tensor};

/// Rows that are kept for a drafter that reads all of them. A request that was parked for longer goes on without it.
const MOST: usize = 4096;

/// Taps in the order of their rows, `[rows, taps · hidden]` each. What no later block can see is let go: a drafter with a
/// window needs no more than it reaches. A drafter that reads everything needs everything, and is given up beyond a bound.
pub(super) struct Unseen {
    parts: Vec<Tensor>,
    /// Rows that a block sees at most; `None` if it sees all.
    reach: Option<usize>,
    /// Rows before the parts that were let go.
    dropped: usize,
}

impl Unseen {
    pub(super) fn new(reach: Option<usize>) -> Self {
        Self { parts: Vec::new(), reach, dropped: 0 }
    }

    pub(super) fn push(&mut self, taps: Tensor) -> Result<()> {
        self.parts.push(taps);
        let Some(reach) = self.reach else { return Ok(()) };
        // Copying a row at a time would cost more than it frees.
        if self.held() >= 2 * reach.max(64) {
            let joined = Tensor::concat_rows(&self.parts)?;
            let from = joined.rows() - reach.max(64);
            self.parts = vec![joined.slice_rows(from..joined.rows())?];
            self.dropped += from;
        }
        Ok(())
    }

    /// Rows not seen, those let go included.
    pub(super) fn rows(&self) -> usize {
        self.dropped + self.held()
    }

    fn held(&self) -> usize {
        self.parts.iter().map(Tensor::rows).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether more rows wait than may be kept for a drafter that needs all of them.
    pub(super) fn is_lost(&self) -> bool {
        self.reach.is_none() && self.held() > MOST
    }

    /// Rows let go, and the rest as one: the drafter's products take them together.
    pub(super) fn joined(&mut self) -> Option<(usize, &Tensor)> {
        if self.parts.len() > 1
            && let Ok(joined) = Tensor::concat_rows(&self.parts)
        {
            self.parts = vec![joined];
        }
        self.parts.first().map(|taps| (std::mem::take(&mut self.dropped), taps))
    }

    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }
}
