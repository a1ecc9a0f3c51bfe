//! Linear layers.

use std::sync::Arc;

use super::{Embedding, Executor, Loader, Tensor, cpu, embedding::Table, mlx, tensor::Repr};
use crate::{Error, Result};

/// `x · Wᵀ`, and a bias where there is one. Cloning shares the weights.
#[derive(Clone, Debug)]
pub struct Linear {
    weights: Weights,
    /// `[out]`
    bias: Option<Arc<[f32]>>,
}

#[derive(Clone, Debug)]
enum Weights {
    Mlx(mlx::Linear),
    Cpu(cpu::Linear),
}

impl Linear {
    /// The matrix at `path` (`path.weight`, `[out, in]`, dense or quantized).
    pub fn load(loader: &Loader<'_>, path: &str, out: usize, input: usize) -> Result<Self> {
        Self::load_joined(loader, &[(path, out)], input)
    }

    /// As [`Self::load`], with the bias `path.bias`, `[out]`.
    pub fn load_biased(loader: &Loader<'_>, path: &str, out: usize, input: usize) -> Result<Self> {
        let bias = loader.vector(&format!("{path}.bias"), out)?;
        Ok(Self { bias: Some(bias.into()), ..Self::load(loader, path, out, input)? })
    }

    /// As [`Self::load_joined`], with the bias `path.bias` of each.
    pub fn load_joined_biased(loader: &Loader<'_>, parts: &[(&str, usize)], input: usize) -> Result<Self> {
        let mut bias = Vec::new();
        for (path, out) in parts {
            bias.extend(loader.vector(&format!("{path}.bias"), *out)?);
        }
        Ok(Self { bias: Some(bias.into()), ..Self::load_joined(loader, parts, input)? })
    }

    /// Several matrices with the same input, joined along their outputs in the order given.
    pub fn load_joined(loader: &Loader<'_>, parts: &[(&str, usize)], input: usize) -> Result<Self> {
        let matrix = |(path, out): &(&str, usize)| loader.linear(path, *out, input);
        let matrices = parts.iter().map(matrix).collect::<Result<Vec<_>>>()?;
        let weights = match loader.executor() {
            Executor::Mlx(dtype) => Weights::Mlx(mlx::Linear::load(&matrices, input, dtype)?),
            Executor::Cpu => Weights::Cpu(cpu::Linear::pack(&matrices, input)?),
        };
        loader.release(&matrices);
        Ok(Self { weights, bias: None })
    }

    /// A table as an output matrix: the head of a model whose embedding is tied to it.
    pub(super) fn tied(embedding: &Embedding) -> Result<Self> {
        let weights = match embedding.table() {
            Table::Mlx(table) => Weights::Mlx(mlx::Linear::from_table(table)?),
            Table::Cpu(table) => Weights::Cpu(table.clone()),
        };
        Ok(Self { weights, bias: None })
    }

    /// Inputs of a row.
    pub fn in_features(&self) -> usize {
        match &self.weights {
            Weights::Mlx(weights) => weights.in_features(),
            Weights::Cpu(weights) => weights.in_features(),
        }
    }

    /// Outputs of a row.
    pub fn out_features(&self) -> usize {
        match &self.weights {
            Weights::Mlx(weights) => weights.out_features(),
            Weights::Cpu(weights) => weights.out_features(),
        }
    }

    /// `[rows, in]` to `[rows, out]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if x.width() != self.in_features() {
            return Err(Error::shape("width of a linear's input", x.width(), self.in_features()));
        }
        let mut y = match (&self.weights, &x.0) {
            (Weights::Mlx(weights), Repr::Mlx(x)) => Tensor::mlx(weights.forward(x)?),
            (Weights::Cpu(weights), Repr::Cpu(x)) => Tensor::cpu(weights.forward(x)?),
            _ => return Err(Error::Executors),
        };
        if let Some(bias) = &self.bias {
            y.add_to_rows(bias)?;
        }
        Ok(y)
    }
}
