//! RMS norms: plain, centred and scaleless (spec 0.1).

use std::sync::Arc;

use mlx_rs::Array;

use super::{Executor, Loader, Tensor, cpu, mlx, tensor::Repr};
use crate::{Error, Result};

/// `x / sqrt(mean(x²) + eps) ⊙ weight` over the last axis, statistics in f32.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    weight: Weight,
    eps: f32,
}

/// The weight, by executor.
#[derive(Clone, Debug)]
enum Weight {
    Mlx(Array),
    Cpu(Arc<[f32]>),
    /// 1, on either executor.
    One,
}

impl RmsNorm {
    /// The plain norm stored at `path.weight`, `[width]`.
    pub fn load(loader: &Loader<'_>, path: &str, width: usize, eps: f32) -> Result<Self> {
        Self::from_weight(loader.vector(&format!("{path}.weight"), width)?, eps, loader.executor())
    }

    /// The centred norm stored at `path.weight`, `[width]`: it multiplies with 1 + weight, added in f32.
    pub fn load_centred(loader: &Loader<'_>, path: &str, width: usize, eps: f32) -> Result<Self> {
        let mut weight = loader.vector(&format!("{path}.weight"), width)?;
        for weight in &mut weight {
            *weight += 1.0;
        }
        Self::from_weight(weight, eps, loader.executor())
    }

    /// The norm without a weight.
    pub fn scaleless(eps: f32) -> Self {
        Self { weight: Weight::One, eps }
    }

    /// A norm with this weight.
    pub fn from_weight(weight: Vec<f32>, eps: f32, executor: Executor) -> Result<Self> {
        let weight = match executor {
            Executor::Mlx(dtype) => Weight::Mlx(mlx::vector(&weight, dtype)?),
            Executor::Cpu => Weight::Cpu(weight.into()),
        };
        Ok(Self { weight, eps })
    }

    /// Norms each row of `x`, `[rows, width]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match &x.0 {
            Repr::Mlx(x) => self.apply_mlx(x).map(Tensor::mlx),
            Repr::Cpu(x) => cpu::rms_norm(x, self.cpu_weight()?, self.eps).map(Tensor::cpu),
        }
    }

    /// `h ← h + r`, and the norm of the new `h`.
    pub fn add_forward(&self, h: &mut Tensor, r: &Tensor) -> Result<Tensor> {
        h.add_assign(r)?;
        self.forward(h)
    }

    pub(super) fn eps(&self) -> f32 {
        self.eps
    }

    /// The weight for the CPU kernels.
    pub(super) fn cpu_weight(&self) -> Result<Option<&[f32]>> {
        match &self.weight {
            Weight::Cpu(weight) => Ok(Some(weight)),
            Weight::One => Ok(None),
            Weight::Mlx(_) => Err(Error::Executors),
        }
    }

    /// Norms over the last axis, whatever the shape in front of it.
    pub(super) fn apply_mlx(&self, x: &Array) -> Result<Array> {
        match &self.weight {
            Weight::Mlx(weight) => mlx::rms_norm(x, Some(weight), self.eps),
            Weight::One => mlx::rms_norm(x, None, self.eps),
            Weight::Cpu(_) => Err(Error::Executors),
        }
    }
}
