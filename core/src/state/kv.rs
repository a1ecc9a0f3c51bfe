//! Keys and values of an attention layer.

use mlx_rs::{
    Array, ops,
    ops::indexing::{TryIndexMutOp, TryIndexOp},
};

use super::{StateError, block::Rows};
use crate::{Kept, Result, Width};

/// Rows by which the buffers grow.
const GROWTH: usize = 256;

/// All keys and values of a sequence in one attention layer, `[1, kv_heads, capacity, head_dim]` each. Rows past
/// [`Self::len`] are garbage and never read: taking rows back only moves the end.
#[derive(Clone, Debug)]
pub struct KvState {
    kv_heads: usize,
    head_dim: usize,
    rows: Rows,
    buffers: Option<(Array, Array)>,
}

impl KvState {
    /// An empty state for `kv_heads` heads of `head_dim`.
    pub fn new(kv_heads: usize, head_dim: usize) -> Self {
        Self { kv_heads, head_dim, rows: Rows::default(), buffers: None }
    }

    /// Rows held, those of an open block included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no row is held.
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
        Ok(())
    }

    /// Appends keys and values of shape `[1, kv_heads, rows, head_dim]`.
    pub(crate) fn append(&mut self, keys: &Array, values: &Array) -> Result<()> {
        for (what, array) in [("keys", keys), ("values", values)] {
            let shape = array.shape();
            let fits = shape.len() == 4
                && shape[0] == 1
                && shape[1] == self.kv_heads as i32
                && shape[2] == keys.dim(2)
                && shape[3] == self.head_dim as i32;
            if !fits {
                let expected = vec![1, self.kv_heads as i32, -1, self.head_dim as i32];
                return Err(StateError::Shape { what, found: shape.to_vec(), expected }.into());
            }
        }
        let start = self.rows.len();
        self.rows.append(keys.dim(2) as usize)?;
        let end = self.rows.len();
        let (mut k, mut v) = match self.buffers.take() {
            Some(buffers) => buffers,
            None => (self.space(GROWTH, keys)?, self.space(GROWTH, values)?),
        };
        let capacity = k.dim(2) as usize;
        if end > capacity {
            let more = (end - capacity).div_ceil(GROWTH) * GROWTH;
            k = ops::concatenate(&[&k, &self.space(more, keys)?], 2)?;
            v = ops::concatenate(&[&v, &self.space(more, values)?], 2)?;
        }
        let range = (.., .., start as i32..end as i32, ..);
        // The only handle on the old buffer is replaced by the new one, so MLX writes the rows in place.
        k.try_index_mut(range.clone(), keys)?;
        v.try_index_mut(range, values)?;
        self.buffers = Some((k, v));
        Ok(())
    }

    /// The keys and values held, `[1, kv_heads, len, head_dim]` each.
    pub(crate) fn rows(&self) -> Result<(Array, Array)> {
        let range = (.., .., 0..self.len() as i32, ..);
        match &self.buffers {
            Some((keys, values)) => Ok((keys.try_index(range.clone())?, values.try_index(range)?)),
            None => {
                let empty = ops::zeros::<f32>(&[1, self.kv_heads as i32, 0, self.head_dim as i32])?;
                Ok((empty.clone(), empty))
            }
        }
    }

    /// Computes what is pending.
    pub(crate) fn eval(&self) -> Result<()> {
        if let Some((keys, values)) = &self.buffers {
            mlx_rs::transforms::eval([keys, values])?;
        }
        Ok(())
    }

    /// Where the key buffer lies in memory.
    #[cfg(test)]
    pub(crate) fn buffer_address(&self) -> Option<usize> {
        let (keys, _) = self.buffers.as_ref()?;
        keys.try_as_slice::<f32>().ok().map(|slice| slice.as_ptr() as usize)
    }

    fn space(&self, rows: usize, like: &Array) -> Result<Array> {
        let shape = [1, self.kv_heads as i32, rows as i32, self.head_dim as i32];
        Ok(ops::zeros_dtype(&shape, like.dtype())?)
    }
}
