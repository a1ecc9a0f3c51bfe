//! The window of a short convolution.

use mlx_rs::{Array, ops, ops::indexing::TryIndexOp};

use super::{StateError, block::Rows};
use crate::{Kept, Result, Width};

/// The last `K − 1` gated inputs of a sequence, `[K−1, channels]`, zeros before its first row. While a block is open
/// also the block's rows: taking rows back is a slice of both (spec 1.4).
#[derive(Clone, Debug)]
pub struct ConvState {
    /// `K − 1`
    window_rows: usize,
    channels: usize,
    rows: Rows,
    /// `[K−1, channels]`: the committed window.
    window: Option<Array>,
    /// `[K−1 + received, channels]`: the window followed by the open block's rows.
    block: Option<Array>,
}

impl ConvState {
    /// An empty state for a kernel of `taps` over `channels`.
    pub fn new(taps: usize, channels: usize) -> Self {
        Self { window_rows: taps - 1, channels, rows: Rows::default(), window: None, block: None }
    }

    /// Rows seen, those of an open block included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no row was seen.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Opens a block of at most `width` rows.
    pub fn begin(&mut self, width: Width) -> Result<()> {
        Ok(self.rows.begin(width)?)
    }

    /// Keeps the first `kept` rows of the open block and drops the rest.
    pub fn commit(&mut self, kept: Kept) -> Result<()> {
        self.rows.commit(kept)?;
        if let Some(block) = self.block.take()
            && kept.0 > 0
        {
            self.window = Some(self.tail(&block, kept.0)?);
        }
        Ok(())
    }

    /// Appends gated inputs `[rows, channels]`; gives the window in front of them with them, `[K−1 + rows, channels]`.
    pub(crate) fn append(&mut self, gated: &Array) -> Result<Array> {
        if gated.ndim() != 2 || gated.dim(1) != self.channels as i32 {
            let expected = vec![-1, self.channels as i32];
            return Err(
                StateError::Shape { what: "gated input", found: gated.shape().to_vec(), expected }.into()
            );
        }
        let rows = gated.dim(0) as usize;
        self.rows.append(rows)?;
        let before = match (&self.block, &self.window) {
            (Some(block), _) => {
                let end = block.dim(0);
                block.try_index((end - self.window_rows as i32..end, ..))?
            }
            (None, Some(window)) => window.clone(),
            (None, None) => {
                ops::zeros_dtype(&[self.window_rows as i32, self.channels as i32], gated.dtype())?
            }
        };
        let joined = ops::concatenate(&[&before, gated], 0)?;
        if self.rows.is_open() {
            self.block = Some(match self.block.take() {
                Some(block) => ops::concatenate(&[&block, gated], 0)?,
                None => joined.clone(),
            });
        } else {
            self.window = Some(self.tail(&joined, rows)?);
        }
        Ok(joined)
    }

    /// The window after `rows` rows of `joined`, a copy of its own: a view would keep the whole block alive.
    fn tail(&self, joined: &Array, rows: usize) -> Result<Array> {
        Ok(joined.try_index((rows as i32..(rows + self.window_rows) as i32, ..))?.contiguous()?)
    }

    /// Computes what is pending.
    pub(crate) fn eval(&self) -> Result<()> {
        mlx_rs::transforms::eval(self.window.iter().chain(&self.block))?;
        Ok(())
    }

    /// Rows that end with the window which the next row sees, if a row was ever seen.
    pub(super) fn held(&self) -> Option<&Array> {
        self.block.as_ref().or(self.window.as_ref())
    }

    pub(super) fn window_rows(&self) -> usize {
        self.window_rows
    }

    pub(super) fn channels(&self) -> usize {
        self.channels
    }

    /// The committed window, `[K−1, channels]`, if a row was ever committed.
    #[cfg(test)]
    pub(crate) fn window(&self) -> Option<&Array> {
        self.window.as_ref()
    }
}
