//! The gated delta net of Qwen 3.5 (spec 2.3).

use super::{Executor, Span, Tensor, cpu, mlx, tensor::Repr};
use crate::{Error, Result, state::DeltaState};

/// Sizes of a gated delta net.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaDims {
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Heads of values, each with a state of its own; a multiple of `key_heads`.
    pub value_heads: usize,
    /// Elements of a query or key.
    pub key_dim: usize,
    /// Elements of a value.
    pub value_dim: usize,
    /// Rows that the convolution sees.
    pub taps: usize,
}

impl DeltaDims {
    /// Whether keys of `dim` elements can run, on any executor: even, up to 1024. Models check it before they are built.
    pub const fn key_runs(dim: usize) -> bool {
        dim >= 2 && dim <= 1024 && dim.is_multiple_of(2)
    }

    /// Whether values of `dim` elements can run, on any executor: a multiple of 16, up to 1024.
    pub const fn value_runs(dim: usize) -> bool {
        dim >= 16 && dim <= 1024 && dim.is_multiple_of(16)
    }

    /// Whether a convolution over `taps` rows can run, on any executor.
    pub const fn taps_run(taps: usize) -> bool {
        taps >= 2 && taps <= 8
    }

    /// Width of joined queries, keys and values: the channels of the convolution.
    pub const fn qkv_width(self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// Width of the values of a row, and of the result.
    pub const fn out_width(self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Width of an input row, `[q | k | v | z | b | a]`.
    pub const fn in_width(self) -> usize {
        self.qkv_width() + self.out_width() + 2 * self.value_heads
    }

    /// Elements of the states of all value heads.
    pub const fn state_len(self) -> usize {
        self.value_heads * self.key_dim * self.value_dim
    }

    /// Whether every value head has its key head.
    pub const fn heads_run(self) -> bool {
        self.value_heads > 0 && self.key_heads > 0 && self.value_heads.is_multiple_of(self.key_heads)
    }
}

/// The weights of a gated delta net that are no matrices, in f32.
#[derive(Clone, Debug)]
pub struct DeltaWeights {
    /// Kernel of the convolution, `[qkv_width, taps]`.
    pub kernel: Vec<f32>,
    /// `A_log`, `[value_heads]`.
    pub a_log: Vec<f32>,
    /// `dt_bias`, `[value_heads]`.
    pub dt_bias: Vec<f32>,
    /// Weight of the plain norm of the output, `[value_dim]`.
    pub norm: Vec<f32>,
    /// Epsilon of that norm.
    pub norm_eps: f32,
}

/// Of rows `[q | k | v | z | b | a]`: a depthwise convolution and silu over `[q | k | v]`, then per value head
///
/// ```text
/// α = exp(−exp(A_log) · softplus(a + dt_bias))      β = σ(b)      k̂, q̂ of unit length, q̂ / √Dk
/// S ← α S      S ← S + k̂ ⊗ β (v − Sᵀ k̂)      o = Sᵀ q̂      result: norm(o) ⊙ silu(z)
/// ```
///
/// all in f32, one row after the other: a block, its replay and a chain of single rows take the same steps.
#[derive(Clone, Debug)]
pub struct GatedDelta {
    kernel: Kernel,
    dims: DeltaDims,
}

#[derive(Clone, Debug)]
enum Kernel {
    Mlx(mlx::GatedDelta),
    Cpu(cpu::GatedDelta),
}

impl GatedDelta {
    /// A net of these weights.
    ///
    /// # Errors
    /// [`Error::Shape`] if the executors cannot run `dims`, or a weight has another size.
    pub fn new(dims: DeltaDims, weights: &DeltaWeights, executor: Executor) -> Result<Self> {
        let DeltaDims { key_heads, value_heads, key_dim, value_dim, taps } = dims;
        for (what, found, runs, expected) in [
            ("elements of a delta net's key", key_dim, DeltaDims::key_runs(key_dim), 2),
            ("elements of a delta net's value", value_dim, DeltaDims::value_runs(value_dim), 16),
            ("taps of a delta net's convolution", taps, DeltaDims::taps_run(taps), 4),
            ("key heads of a delta net", key_heads, key_heads > 0, 1),
            ("value heads of a delta net", value_heads, dims.heads_run(), key_heads),
        ] {
            if !runs {
                return Err(Error::shape(what, found, expected));
            }
        }
        for (what, found, expected) in [
            ("values of a delta net's convolution", weights.kernel.len(), dims.qkv_width() * dims.taps),
            ("values of A_log", weights.a_log.len(), dims.value_heads),
            ("values of dt_bias", weights.dt_bias.len(), dims.value_heads),
            ("values of a delta net's norm", weights.norm.len(), dims.value_dim),
        ] {
            if found != expected {
                return Err(Error::shape(what, found, expected));
            }
        }
        let kernel = match executor {
            Executor::Mlx(dtype) => Kernel::Mlx(mlx::GatedDelta::new(dims, weights, dtype)?),
            Executor::Cpu => Kernel::Cpu(cpu::GatedDelta::new(dims, weights)),
        };
        Ok(Self { kernel, dims })
    }

    /// The state of a sequence of which nothing was seen.
    pub fn new_state(&self) -> DeltaState {
        DeltaState::new(self.dims)
    }

    /// Of `[rows, in_width]` gives `[rows, out_width]`, and takes the spans' rows into their states.
    pub fn forward(&self, x: &Tensor, spans: &mut [Span<'_>]) -> Result<Tensor> {
        if x.width() != self.dims.in_width() {
            return Err(Error::shape("width of a delta net's input", x.width(), self.dims.in_width()));
        }
        match (&self.kernel, &x.0) {
            (Kernel::Mlx(kernel), Repr::Mlx(x)) => kernel.forward(x, spans).map(Tensor::mlx),
            (Kernel::Cpu(kernel), Repr::Cpu(x)) => kernel.forward(x, spans).map(Tensor::cpu),
            _ => Err(Error::Executors),
        }
    }
}
