//! Linear layers over dense weights.

use mlx_rs::{Array, Dtype, ops};

use super::matrix;
use crate::{Error, Result, checkpoint::LinearTensors};

/// Weights kept as `[in, out]`: on CUDA only that layout gives a row the same bits in any block (spec "Row invariance").
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    weight: Array,
}

impl Linear {
    /// Matrices with `input` inputs, joined along their outputs, in `dtype`.
    pub(crate) fn load(matrices: &[LinearTensors<'_>], input: usize, dtype: Dtype) -> Result<Self> {
        let values: Vec<f32> = matrices.iter().flat_map(LinearTensors::to_f32).collect();
        if values.len() > i32::MAX as usize {
            return Err(Error::shape("values of a joined matrix", values.len(), i32::MAX as usize));
        }
        Self::from_table(&matrix(&values, values.len() / input, input, dtype)?)
    }

    /// From a table `[out, in]`.
    pub(crate) fn from_table(table: &Array) -> Result<Self> {
        let weight = table.transpose()?.contiguous()?;
        weight.eval()?;
        Ok(Self { weight })
    }

    pub(crate) fn in_features(&self) -> usize {
        self.weight.dim(0) as usize
    }

    pub(crate) fn out_features(&self) -> usize {
        self.weight.dim(1) as usize
    }

    /// `[rows, in]` to `[rows, out]`.
    pub(crate) fn forward(&self, x: &Array) -> Result<Array> {
        Ok(ops::matmul(x, &self.weight)?)
    }
}
