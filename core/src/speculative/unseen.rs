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
    /// Rows of the first part if they were handed out: [`Self::next`] and [`Self::seen`].
    handed: usize,
}

impl Unseen {
    pub(super) fn new(reach: Option<usize>) -> Self {
        Self { parts: Vec::new(), reach, dropped: 0, handed: 0 }
    }

    pub(super) fn push(&mut self, taps: Tensor) -> Result<()> {
        self.handed = 0;
        self.parts.push(taps);
        let Some(reach) = self.reach else { return Ok(()) };
        // Copying a row at a time would cost more than it frees.
        if self.held() >= 2 * reach.max(64) {
            self.let_go(reach.max(64))?;
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

    /// Lets go of what no block can see any more, and gives the number of rows let go since the last time: they lie before
    /// what [`Self::next`] gives.
    pub(super) fn take_dropped(&mut self) -> Result<usize> {
        if let Some(reach) = self.reach {
            self.let_go(reach.max(1))?;
        }
        Ok(std::mem::take(&mut self.dropped))
    }

    /// The first rows, `most` of them if there are as many, as one: the drafter's products take them together. They stay
    /// the first ones until they are [`Self::seen`].
    pub(super) fn next(&mut self, most: usize) -> Result<Option<&Tensor>> {
        let Some(first) = self.parts.first() else { return Ok(None) };
        let most = most.max(1);
        if first.rows() > most {
            self.split_first(most)?;
        }
        let mut rows = 0;
        let fit = self.parts.iter().take_while(|part| {
            rows += part.rows();
            rows <= most
        });
        let fit = fit.count();
        if fit > 1 {
            let joined = Tensor::concat_rows(&self.parts[..fit])?;
            self.parts.splice(..fit, [joined]);
        }
        self.handed = self.parts[0].rows();
        Ok(self.parts.first())
    }

    /// Rows that were handed out and are not seen yet.
    pub(super) fn handed(&self) -> usize {
        self.handed
    }

    /// The drafter took in what [`Self::next`] gave.
    pub(super) fn seen(&mut self) {
        if std::mem::take(&mut self.handed) > 0 {
            self.parts.remove(0);
        }
    }

    /// Keeps the last `kept` rows.
    fn let_go(&mut self, kept: usize) -> Result<()> {
        let surplus = self.held().saturating_sub(kept);
        let (mut left, mut whole) = (surplus, 0);
        while let Some(part) = self.parts.get(whole).filter(|part| part.rows() <= left) {
            (left, whole) = (left - part.rows(), whole + 1);
        }
        if left > 0 {
            self.parts.drain(..whole);
            self.split_first(left)?;
            whole = 1;
        }
        self.parts.drain(..whole);
        self.dropped += surplus;
        Ok(())
    }

    /// Makes two parts of the first, of `rows` rows and of the rest.
    fn split_first(&mut self, rows: usize) -> Result<()> {
        let first = &self.parts[0];
        let halves = [first.slice_rows(0..rows)?, first.slice_rows(rows..first.rows())?];
        // A lazy slice would hold all of it.
        halves.iter().try_for_each(Tensor::eval)?;
        self.parts.splice(..1, halves);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::Executor;

    /// Rows that hold their own number.
    fn rows(from: usize, count: usize) -> Tensor {
        let values: Vec<_> = (from..from + count).map(|row| row as f32).collect();
        Tensor::from_host(&values, count, 1, Executor::Cpu).unwrap()
    }

    fn filled(reach: Option<usize>, parts: &[usize]) -> Unseen {
        let mut unseen = Unseen::new(reach);
        let mut from = 0;
        for &count in parts {
            unseen.push(rows(from, count)).unwrap();
            from += count;
        }
        unseen
    }

    /// All that is handed out in pieces of `most` rows.
    fn drained(mut unseen: Unseen, most: usize) -> (usize, Vec<Vec<f32>>) {
        let (mut dropped, mut pieces) = (0, Vec::new());
        while !unseen.is_empty() {
            dropped += unseen.take_dropped().unwrap();
            let before = unseen.rows();
            let piece = unseen.next(most).unwrap().unwrap().to_host().unwrap().into_owned();
            // What is not taken is handed out again.
            let again = unseen.next(most).unwrap().unwrap().to_host().unwrap().into_owned();
            assert_eq!((&piece, unseen.handed(), unseen.rows()), (&again, piece.len(), before));
            pieces.push(piece);
            unseen.seen();
            assert_eq!(unseen.handed(), 0);
        }
        (dropped, pieces)
    }

    fn numbers(range: std::ops::Range<usize>) -> Vec<f32> {
        range.map(|row| row as f32).collect()
    }

    #[test]
    fn every_row_comes_once_and_in_order_whatever_the_pieces() {
        for parts in [&[1200][..], &[512, 512, 176], &[1; 1200], &[3, 900, 1, 1, 295]] {
            for most in [1, 7, 512, 600, 1200, usize::MAX] {
                let (dropped, pieces) = drained(filled(None, parts), most);
                assert_eq!((dropped, pieces.concat()), (0, numbers(0..1200)), "{most}");
                assert!(pieces.iter().all(|piece| piece.len() <= most));
                // Parts that fit come together.
                assert!(
                    pieces.len() <= 1 + 2 * 1200_usize.div_ceil(most),
                    "{} pieces of {most}",
                    pieces.len()
                );
            }
        }
    }

    #[test]
    fn rows_that_no_block_sees_are_let_go_first() {
        for parts in [&[700][..], &[300, 300, 100], &[1; 700]] {
            for most in [1, 16, 64, usize::MAX] {
                let (dropped, pieces) = drained(filled(Some(100), parts), most);
                assert_eq!((dropped, pieces.concat()), (600, numbers(600..700)), "{most}");
            }
        }
        let (dropped, pieces) = drained(filled(Some(100), &[40, 40]), 64);
        assert_eq!((dropped, pieces.concat()), (0, numbers(0..80)));
    }

    #[test]
    fn what_a_window_never_reads_is_not_held() {
        let unseen = filled(Some(100), &[1].repeat(5000));
        assert!(unseen.held() < 200 && unseen.rows() == 5000, "{} rows are held", unseen.held());
    }
}
