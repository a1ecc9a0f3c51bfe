//! The recurrent state as MLX arrays.

use mlx_rs::{Array, Dtype, ops};

use crate::{
    Result,
    nn::{
        DeltaDims,
        mlx::{DeltaArrays, scan, to_host},
    },
};

/// The state `[Hv, Dv, Dk]` after the committed rows, and the open block with the state after it.
#[derive(Clone, Debug)]
pub(super) struct MlxMemory {
    committed: Array,
    block: Option<(DeltaArrays, Array)>,
}

impl MlxMemory {
    /// Zeros.
    pub(super) fn new(dims: DeltaDims) -> Result<Self> {
        let shape = [dims.value_heads as i32, dims.value_dim as i32, dims.key_dim as i32];
        Ok(Self { committed: ops::zeros_dtype(&shape, Dtype::Float32)?, block: None })
    }

    /// Rows of the open block.
    pub(super) fn received(&self) -> usize {
        self.block.as_ref().map_or(0, |(rows, _)| rows.rows())
    }

    pub(super) fn step(&mut self, dims: DeltaDims, rows: DeltaArrays, open: bool) -> Result<Array> {
        let from = self.block.as_ref().map_or(&self.committed, |(_, after)| after);
        let (out, after) = scan(dims, &rows, from)?;
        if open {
            let rows = match &self.block {
                Some((before, _)) => before.then(&rows)?,
                None => rows,
            };
            self.block = Some((rows, after));
        } else {
            self.committed = after;
        }
        Ok(out)
    }

    /// Keeps `kept` of the block's rows, at most as many as there are.
    pub(super) fn commit(&mut self, dims: DeltaDims, kept: usize) -> Result<()> {
        match self.block.take() {
            Some((rows, after)) if kept == rows.rows() => self.committed = after,
            Some((rows, _)) if kept > 0 => {
                (_, self.committed) = scan(dims, &rows.first(kept)?, &self.committed)?
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn eval(&self) -> Result<()> {
        let block = self.block.iter().flat_map(|(rows, after)| rows.arrays().into_iter().chain([after]));
        Ok(mlx_rs::transforms::eval(std::iter::once(&self.committed).chain(block))?)
    }

    pub(super) fn to_host(&self) -> Result<Vec<f32>> {
        to_host(&self.committed)
    }
}
