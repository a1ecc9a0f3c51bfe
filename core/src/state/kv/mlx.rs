//! Keys and values as MLX arrays.

use std::ops::Range;

use mlx_rs::{
    Array, ops,
    ops::indexing::{TryIndexMutOp, TryIndexOp},
};

use crate::Result;

/// Rows by which the buffers grow.
const GROWTH: usize = 256;

/// Keys and values, `[1, kv_heads, capacity, head_dim]` each.
#[derive(Clone, Debug, Default)]
pub(super) struct MlxKv {
    buffers: Option<(Array, Array)>,
    /// Position of the buffers' first row.
    base: usize,
}

impl MlxKv {
    /// Writes rows `[1, kv_heads, rows, head_dim]` at position `start`.
    pub(super) fn write(&mut self, start: usize, keys: &Array, values: &Array) -> Result<()> {
        let (mut k, mut v) = if let Some(buffers) = self.buffers.take() {
            buffers
        } else {
            self.base = start;
            (space(GROWTH, keys)?, space(GROWTH, values)?)
        };
        let start = start - self.base;
        let end = start + keys.dim(2) as usize;
        let capacity = k.dim(2) as usize;
        if end > capacity {
            let more = (end - capacity).div_ceil(GROWTH) * GROWTH;
            k = ops::concatenate(&[&k, &space(more, keys)?], 2)?;
            v = ops::concatenate(&[&v, &space(more, values)?], 2)?;
        }
        let range = (.., .., start as i32..end as i32, ..);
        // The only handle on the old buffer is replaced by the new one, so MLX writes the rows in place.
        k.try_index_mut(range.clone(), keys)?;
        v.try_index_mut(range, values)?;
        self.buffers = Some((k, v));
        Ok(())
    }

    /// Moves the rows at `positions` to the front of buffers with room for `room` more, and forgets all others.
    pub(super) fn compact(&mut self, positions: Range<usize>, room: usize) -> Result<()> {
        if let Some((keys, values)) = &mut self.buffers {
            let range = (positions.start - self.base) as i32..(positions.end - self.base) as i32;
            for buffer in [keys, values] {
                let rows = buffer.try_index((.., .., range.clone(), ..))?;
                *buffer = ops::concatenate(&[&rows, &space(room, &rows)?], 2)?;
            }
            self.base = positions.start;
        }
        Ok(())
    }

    /// The rows at `positions`.
    pub(super) fn read(&self, positions: Range<usize>) -> Result<(Array, Array)> {
        let Some((keys, values)) = &self.buffers else { return Err(super::StateError::Empty.into()) };
        let range = (.., .., (positions.start - self.base) as i32..(positions.end - self.base) as i32, ..);
        Ok((keys.try_index(range.clone())?, values.try_index(range)?))
    }

    pub(super) fn eval(&self) -> Result<()> {
        if let Some((keys, values)) = &self.buffers {
            mlx_rs::transforms::eval([keys, values])?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> Option<usize> {
        self.buffers.as_ref().map(|(keys, values)| keys.nbytes() + values.nbytes())
    }

    #[cfg(test)]
    pub(super) fn address(&self) -> Option<usize> {
        let (keys, _) = self.buffers.as_ref()?;
        keys.try_as_slice::<f32>().ok().map(|slice| slice.as_ptr() as usize)
    }
}

/// Zeros for `rows` more rows of the shape and dtype of `like`.
fn space(rows: usize, like: &Array) -> Result<Array> {
    Ok(ops::zeros_dtype(&[1, like.dim(1), rows as i32, like.dim(3)], like.dtype())?)
}
