//! RMS norms: plain, centred and scaleless (spec 0.1).

use mlx_rs::{Array, fast};

use super::{Executor, Loader, Tensor, mlx};
use crate::Result;

/// `x / sqrt(mean(x²) + eps) ⊙ weight` over the last axis, statistics in f32.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    weight: Array,
    eps: f32,
}

impl RmsNorm {
    /// The plain norm stored at `path.weight`, `[width]`.
    pub fn load(loader: &Loader<'_>, path: &str, width: usize, eps: f32) -> Result<Self> {
        let weight = loader.vector(&format!("{path}.weight"), width)?;
        Ok(Self::from_weight(&weight, eps, loader.executor()))
    }

    /// A norm with this weight.
    pub fn from_weight(weight: &[f32], eps: f32, executor: Executor) -> Self {
        Self { weight: mlx::vector(weight, executor), eps }
    }

    /// Norms each row of `x`, `[rows, width]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        Ok(Tensor::wrap(self.apply(x.array())?))
    }

    /// `h ← h + r`, and the norm of the new `h`.
    pub fn add_forward(&self, h: &mut Tensor, r: &Tensor) -> Result<Tensor> {
        *h = h.add(r)?;
        self.forward(h)
    }

    /// Norms over the last axis, whatever the shape in front of it.
    pub(crate) fn apply(&self, x: &Array) -> Result<Array> {
        Ok(fast::rms_norm(x, Some(&self.weight), self.eps)?)
    }
}
