//! Grouped-query attention over a sequence's keys and values.

use super::{RmsNorm, Rope, Span, Tensor, cpu, mlx, tensor::Repr};
use crate::{Error, Position, Result, state::KvState};

/// Which keys `j` a query at position `i` sees (spec 0.3, 4.4, 6.4). A window is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Keys `j ≤ i`.
    Causal,
    /// Every key, those after the query included: a drafter's block.
    Full,
    /// Keys `0 ≤ i − j < W`: the last W, the query's own included.
    Window(usize),
    /// Keys `|i − j| < W`.
    Within(usize),
    /// Keys `|i − j| ≤ W`.
    WithinInclusive(usize),
}

impl Mask {
    /// Rows before a query that it sees at most, so many must be kept; `None` if it sees all of them.
    pub fn reach(self) -> Option<usize> {
        match self {
            Self::Causal | Self::Full => None,
            Self::Window(window) | Self::Within(window) => Some(window - 1),
            Self::WithinInclusive(window) => Some(window),
        }
    }
}

impl From<Mask> for mlxcel_kernels::attention::Mask {
    fn from(mask: Mask) -> Self {
        match mask {
            Mask::Causal => Self::CAUSAL,
            Mask::Full => Self::ALL,
            Mask::Window(window) => Self::window(window),
            Mask::Within(window) => Self::within(window),
            Mask::WithinInclusive(window) => Self::within_inclusive(window),
        }
    }
}

/// `softmax(q·kᵀ · scale + mask)·v` in grouped heads: query head `h` reads key head `h / (heads / kv_heads)`; optional
/// norms per head come before the rotation (spec 0.3).
#[derive(Clone, Debug)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Factor on the scores.
    pub scale: f32,
    /// Norm of each query head.
    pub q_norm: Option<RmsNorm>,
    /// Norm of each key head.
    pub k_norm: Option<RmsNorm>,
    /// Rotation of queries and keys.
    pub rope: Option<Rope>,
}

impl Attention {
    /// Whether heads of `head_dim` elements can run, on any executor: a multiple of 8, up to 256. Models check it before
    /// they are built.
    pub const fn runs(head_dim: usize) -> bool {
        head_dim >= 8 && head_dim <= 256 && head_dim.is_multiple_of(8)
    }

    /// Width of the queries of a row.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of the keys, or of the values, of a row.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Causal self-attention of every span over its own state, within the window where the state is one: `qkv` is
    /// `[rows, q | k | v]`, the result `[rows, q]`. Appends the spans' keys and values to their states.
    pub fn forward(&self, qkv: &Tensor, spans: &mut [Span<'_>]) -> Result<Tensor> {
        check("width of queries, keys and values", qkv, self.q_width() + 2 * self.kv_width())?;
        match &qkv.0 {
            Repr::Mlx(qkv) => mlx::forward(self, qkv, spans, false).map(Tensor::mlx),
            Repr::Cpu(qkv) => cpu::forward(self, qkv, spans, false).map(Tensor::cpu),
        }
    }

    /// As [`Self::forward`], with a gate of `head_dim` elements behind each head's query, `[rows, q0 | gate0 | q1 | … | k
    /// | v]`: the result is `attention ⊙ σ(gate)`, head by head. Gates are neither normed nor rotated (spec 2.3).
    pub fn forward_gated(&self, qkv: &Tensor, spans: &mut [Span<'_>]) -> Result<Tensor> {
        let width = 2 * (self.q_width() + self.kv_width());
        check("width of queries, gates, keys and values", qkv, width)?;
        match &qkv.0 {
            Repr::Mlx(qkv) => mlx::forward(self, qkv, spans, true).map(Tensor::mlx),
            Repr::Cpu(qkv) => cpu::forward(self, qkv, spans, true).map(Tensor::cpu),
        }
    }

    /// Norms, rotates and appends keys and values `[rows, k | v]` at the end of `state`.
    pub fn append(&self, kv: &Tensor, state: &mut KvState) -> Result<()> {
        check("width of keys and values", kv, 2 * self.kv_width())?;
        match &kv.0 {
            Repr::Mlx(kv) => mlx::append(self, kv, state),
            Repr::Cpu(kv) => cpu::append(self, kv, state),
        }
    }

    /// Attends from queries `[rows, q]`, the first at position `start`, to all rows of `state`; gives `[rows, q]`.
    pub fn attend(&self, q: &Tensor, state: &KvState, start: Position, mask: Mask) -> Result<Tensor> {
        check("width of queries", q, self.q_width())?;
        state.check_reach(start, mask)?;
        match &q.0 {
            Repr::Mlx(q) => mlx::attend(self, q, state, start, mask).map(Tensor::mlx),
            Repr::Cpu(q) => cpu::attend(self, q, state.rows_cpu()?, start, mask).map(Tensor::cpu),
        }
    }
}

fn check(what: &'static str, x: &Tensor, width: usize) -> Result<()> {
    if x.width() == width { Ok(()) } else { Err(Error::shape(what, x.width(), width)) }
}
