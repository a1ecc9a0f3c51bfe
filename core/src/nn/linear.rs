//! Linear layers.

use mlx_rs::{Array, ops};

use super::{Loader, Tensor, mlx};
use crate::{Error, Result};

/// `x · Wᵀ` without bias. Cloning shares the weights.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[in, out]`
    weight: Array,
}

impl Linear {
    /// The matrix at `path` (`path.weight`, `[out, in]`, dense or quantized).
    pub fn load(loader: &Loader<'_>, path: &str, out: usize, input: usize) -> Result<Self> {
        Self::load_joined(loader, &[(path, out)], input)
    }

    /// Several matrices with the same input, joined along their outputs in the order given.
    pub fn load_joined(loader: &Loader<'_>, parts: &[(&str, usize)], input: usize) -> Result<Self> {
        let mut values = Vec::new();
        let mut total = 0;
        for (path, out) in parts {
            values.extend_from_slice(&loader.linear(path, *out, input)?.to_f32()?);
            total += out;
        }
        let matrix = mlx::matrix(&values, total, input, loader.executor())?;
        Ok(Self { weight: mlx::transposed(&matrix)? })
    }

    /// Over a table `[out, in]`: the head of a model whose embedding is tied to it.
    pub(crate) fn from_table(table: &Array) -> Result<Self> {
        Ok(Self { weight: mlx::transposed(table)? })
    }

    /// Outputs of a row.
    pub fn out_features(&self) -> usize {
        self.weight.dim(1) as usize
    }

    /// `[rows, in]` to `[rows, out]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if x.width() != self.weight.dim(0) as usize {
            return Err(Error::shape("linear input", x.width(), self.weight.dim(0) as usize));
        }
        Ok(Tensor::wrap(ops::matmul(x.array(), &self.weight)?))
    }
}
