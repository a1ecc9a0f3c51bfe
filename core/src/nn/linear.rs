//! Linear layers.

use mlx_rs::{Array, ops};

use super::{Loader, Tensor, mlx};
use crate::{Error, Result};

/// `x · Wᵀ`, and a bias where there is one. Cloning shares the weights.
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[in, out]`
    weight: Array,
    /// `[out]`
    bias: Option<Array>,
}

impl Linear {
    /// The matrix at `path` (`path.weight`, `[out, in]`, dense or quantized).
    pub fn load(loader: &Loader<'_>, path: &str, out: usize, input: usize) -> Result<Self> {
        Self::load_joined(loader, &[(path, out)], input)
    }

    /// As [`Self::load`], with the bias `path.bias`, `[out]`.
    pub fn load_biased(loader: &Loader<'_>, path: &str, out: usize, input: usize) -> Result<Self> {
        let bias = mlx::vector(&loader.vector(&format!("{path}.bias"), out)?, loader.executor());
        Ok(Self { bias: Some(bias), ..Self::load(loader, path, out, input)? })
    }

    /// Several matrices with the same input, joined along their outputs in the order given.
    pub fn load_joined(loader: &Loader<'_>, parts: &[(&str, usize)], input: usize) -> Result<Self> {
        let mut values = Vec::new();
        let mut total = 0;
        for (path, out) in parts {
            values.extend_from_slice(&loader.linear(path, *out, input)?.to_f32());
            total += out;
        }
        let matrix = mlx::matrix(&values, total, input, loader.executor())?;
        Ok(Self { weight: mlx::transposed(&matrix)?, bias: None })
    }

    /// Over a table `[out, in]`: the head of a model whose embedding is tied to it.
    pub(crate) fn from_table(table: &Array) -> Result<Self> {
        Ok(Self { weight: mlx::transposed(table)?, bias: None })
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
        let y = ops::matmul(x.array(), &self.weight)?;
        Ok(Tensor::wrap(match &self.bias {
            Some(bias) => ops::add(&y, bias)?,
            None => y,
        }))
    }
}
