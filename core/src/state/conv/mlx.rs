//! The window as MLX arrays.

use mlx_rs::{Array, ops, ops::indexing::TryIndexOp};

use crate::Result;

/// The committed window, and the rows of an open block behind it.
#[derive(Clone, Debug)]
pub(super) struct MlxWindow {
    /// `[K−1, channels]`
    window: Array,
    /// `[K−1 + received, channels]`: the window followed by the open block's rows.
    block: Option<Array>,
}

impl MlxWindow {
    /// Zeros, in the shape and dtype of `like`, `[rows, channels]`.
    pub(super) fn new(window_rows: usize, like: &Array) -> Result<Self> {
        let window = ops::zeros_dtype(&[window_rows as i32, like.dim(1)], like.dtype())?;
        Ok(Self { window, block: None })
    }

    pub(super) fn append(&mut self, gated: &Array, window_rows: usize, open: bool) -> Result<Array> {
        let before = match &self.block {
            Some(block) => {
                let end = block.dim(0);
                block.try_index((end - window_rows as i32..end, ..))?
            }
            None => self.window.clone(),
        };
        let joined = ops::concatenate(&[&before, gated], 0)?;
        if open {
            self.block = Some(match self.block.take() {
                Some(block) => ops::concatenate(&[&block, gated], 0)?,
                None => joined.clone(),
            });
        } else {
            self.window = tail(&joined, gated.dim(0), window_rows)?;
        }
        Ok(joined)
    }

    pub(super) fn commit(&mut self, kept: usize, window_rows: usize) -> Result<()> {
        if let Some(block) = self.block.take()
            && kept > 0
        {
            self.window = tail(&block, kept as i32, window_rows)?;
        }
        Ok(())
    }

    pub(super) fn eval(&self) -> Result<()> {
        Ok(mlx_rs::transforms::eval(std::iter::once(&self.window).chain(&self.block))?)
    }

    pub(super) fn to_host(&self) -> Result<Vec<f32>> {
        crate::nn::mlx::to_host(&self.window)
    }
}

/// The window after `rows` rows of `joined`, a copy of its own: a view would keep the whole block alive.
fn tail(joined: &Array, rows: i32, window_rows: usize) -> Result<Array> {
    Ok(joined.try_index((rows..rows + window_rows as i32, ..))?.contiguous()?)
}
