//! Grouped-query attention over a sequence's keys and values.

use mlx_rs::{Array, fast, fast::ScaledDotProductAttentionMask as SdpaMask};

use super::{RmsNorm, Rope, Span, Tensor};
use crate::{Position, Result, state::KvState};

/// Which keys a query at position `i` sees (spec 0.3, 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Keys `j ≤ i`.
    Causal,
    /// Every key, those after the query included: a drafter's block.
    Full,
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
    /// Width of the queries of a row.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of the keys, or of the values, of a row.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Causal self-attention of every span over its own state: `qkv` is `[rows, q | k | v]`, the result `[rows, q]`.
    /// Appends the spans' keys and values to their states.
    pub fn forward(&self, qkv: &Tensor, spans: &mut [Span<'_>]) -> Result<Tensor> {
        let (q_width, kv_width) = (self.q_width(), self.kv_width());
        let q = qkv.slice_features(0..q_width)?;
        let kv = qkv.slice_features(q_width..q_width + 2 * kv_width)?;
        let mut rows = Vec::with_capacity(spans.len());
        for span in spans {
            let state = span.state.kv()?;
            let start = Position(state.len());
            self.append(&kv.slice_rows(span.rows.clone())?, state)?;
            rows.push(self.attend(&q.slice_rows(span.rows.clone())?, state, start, Mask::Causal)?);
        }
        Tensor::concat_rows(&rows)
    }

    /// Norms, rotates and appends keys and values `[rows, k | v]` at the end of `state`.
    pub fn append(&self, kv: &Tensor, state: &mut KvState) -> Result<()> {
        let kv_width = self.kv_width();
        let k = self.split_heads(&kv.slice_features(0..kv_width)?, self.kv_heads, self.k_norm.as_ref())?;
        let k = self.rotate(k, Position(state.len()))?;
        let v = self.split_heads(&kv.slice_features(kv_width..2 * kv_width)?, self.kv_heads, None)?;
        state.append(&k, &v)
    }

    /// Attends from queries `[rows, q]`, the first at position `start`, to all rows of `state`; gives `[rows, q]`.
    pub fn attend(&self, q: &Tensor, state: &KvState, start: Position, mask: Mask) -> Result<Tensor> {
        let q = self.rotate(self.split_heads(q, self.heads, self.q_norm.as_ref())?, start)?;
        let (keys, values) = state.rows()?;
        let rows = q.dim(2) as usize;
        let sdpa = match mask {
            Mask::Full => None,
            Mask::Causal if rows == 1 => None,
            // MLX aligns the last query with the last key.
            Mask::Causal => Some(SdpaMask::Causal),
        };
        let out = fast::scaled_dot_product_attention(&q, &keys, &values, self.scale, sdpa, None::<&Array>)?;
        let out = out.transpose_axes(&[0, 2, 1, 3])?;
        Ok(Tensor::wrap(out.reshape(&[rows as i32, self.q_width() as i32])?))
    }

    /// `[rows, heads · head_dim]` to `[1, heads, rows, head_dim]`, normed per head.
    fn split_heads(&self, x: &Tensor, heads: usize, norm: Option<&RmsNorm>) -> Result<Array> {
        let shape = [1, x.rows() as i32, heads as i32, self.head_dim as i32];
        let mut array = x.array().reshape(&shape)?;
        if let Some(norm) = norm {
            array = norm.apply(&array)?;
        }
        Ok(array.transpose_axes(&[0, 2, 1, 3])?)
    }

    fn rotate(&self, heads: Array, start: Position) -> Result<Array> {
        match &self.rope {
            Some(rope) => rope.apply(&heads, start),
            None => Ok(heads),
        }
    }
}
