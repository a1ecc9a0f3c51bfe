//! The gated short convolution of LFM2 (spec 1.3).

use mlxcel_kernels::conv;

use super::{Executor, Span, Tensor, cpu, mlx, tensor::Repr};
use crate::{Error, Result};

/// Depthwise causal convolution between two gates: of `[B | C | X]` rows, `s = B ⊙ X` is what the state holds,
/// `c_t = Σ_j w[j] ⊙ s_(t−K+1+j)`, and the result is `C ⊙ c`.
#[derive(Clone, Debug)]
pub struct ShortConv {
    kernel: Kernel,
    channels: usize,
}

#[derive(Clone, Debug)]
enum Kernel {
    Mlx(mlx::ShortConv),
    Cpu(conv::ShortConv),
}

impl ShortConv {
    /// From kernel values `[channels, K]`, K 2 to 8, and an optional bias `[channels]`.
    pub fn new(values: &[f32], bias: Option<&[f32]>, channels: usize, executor: Executor) -> Result<Self> {
        let kernel = match executor {
            Executor::Mlx(dtype) => Kernel::Mlx(mlx::ShortConv::new(values, bias, channels, dtype)?),
            Executor::Cpu => Kernel::Cpu(conv::ShortConv::new(values, channels, bias)),
        };
        Ok(Self { kernel, channels })
    }

    /// Of `[rows, 3 · channels]` gives `[rows, channels]`, and appends the spans' gated inputs to their states.
    pub fn forward(&self, bcx: &Tensor, spans: &mut [Span<'_>]) -> Result<Tensor> {
        if bcx.width() != 3 * self.channels {
            return Err(Error::shape("width of a convolution's input", bcx.width(), 3 * self.channels));
        }
        match (&self.kernel, &bcx.0) {
            (Kernel::Mlx(kernel), Repr::Mlx(bcx)) => mlx::short_conv(kernel, bcx, spans).map(Tensor::mlx),
            (Kernel::Cpu(kernel), Repr::Cpu(bcx)) => cpu::short_conv(kernel, bcx, spans).map(Tensor::cpu),
            _ => Err(Error::Executors),
        }
    }
}
