//! Gated delta rule (Qwen 3.5 linear attention): the recurrence and the small steps around it.
//!
//! Per value head, with key head `value head / (Hv / Hk)`:
//! ```text
//! k̂ = k / sqrt(Σ k² + 1e-6)        q̂ = q / sqrt(Σ q² + 1e-6) / sqrt(Dk)
//! S ← α S      e = v - Sᵀ k̂      S ← S + k̂ ⊗ (β e)      o = Sᵀ q̂
//! ```
//! Rows are consumed strictly in order with the same arithmetic each, so a block, a replay of its first rows and
//! row-by-row decoding give the same bits.

mod step;
#[cfg(test)]
mod tests;

use crate::activation::zip_in_place;
use crate::norm::norm_row;
use crate::parts::Parts;
use crate::rows::by_rows;
use crate::{Exec, Heads, dispatch, math, simd::Simd};

/// Values of work that make it worth waking another thread.
const SPLIT: usize = 16 * 1024;
/// Multiply-adds of the recurrence that make it worth waking another thread.
const STEP_SPLIT: usize = 64 * 1024;

/// Sizes of a gated delta layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaShape {
    key_heads: usize,
    value_heads: usize,
    key_dim: usize,
    value_dim: usize,
}

impl DeltaShape {
    /// # Panics
    /// If `value_heads` is not a multiple of `key_heads`, `key_dim` is odd, `value_dim` is not a multiple of 16, or a
    /// size is 0.
    pub fn new(key_heads: usize, value_heads: usize, key_dim: usize, value_dim: usize) -> Self {
        assert!(
            key_heads > 0 && value_heads > 0 && value_heads.is_multiple_of(key_heads),
            "{value_heads} value heads on {key_heads} key heads: not a multiple"
        );
        assert!(key_dim > 0 && key_dim.is_multiple_of(2), "key dimension {key_dim}; expected an even number");
        assert!(
            value_dim > 0 && value_dim.is_multiple_of(16),
            "value dimension {value_dim}; expected a multiple of 16"
        );
        Self { key_heads, value_heads, key_dim, value_dim }
    }

    /// Width of a row of joined `[q | k | v]`: `2 · Hk · Dk + Hv · Dv`.
    pub fn qkv_width(&self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }

    /// Width of a row of the output: `Hv · Dv`.
    pub fn out_width(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Length of a state.
    pub fn state_len(&self) -> usize {
        self.value_heads * self.key_dim * self.value_dim
    }

    /// Where the state of a value head has the element of key dimension `key` and value dimension `value`: a state lies as
    /// `[Hv, Dv/16, Dk, 16]`, lanes are value dimensions.
    pub fn state_index(&self, head: usize, key: usize, value: usize) -> usize {
        ((head * (self.value_dim / 16) + value / 16) * self.key_dim + key) * 16 + value % 16
    }

    /// Value heads.
    pub fn value_heads(&self) -> usize {
        self.value_heads
    }
}

/// What the recurrence consumes: keep these rows while a block is open, and a replay needs nothing else.
#[derive(Clone, Copy, Debug)]
pub struct DeltaRows<'a> {
    /// Joined `[q | k | v]` after convolution and activation, `[rows, qkv_width]`; not yet normalised.
    pub qkv: &'a [f32],
    /// Decay factors α = exp(g) in (0, 1], `[rows, Hv]`.
    pub alpha: &'a [f32],
    /// Write strengths β, `[rows, Hv]`.
    pub beta: &'a [f32],
}

/// `alpha = exp(-exp(A_log) · softplus(a + dt_bias))` and `beta = sigmoid(b)`, both packed `[rows, Hv]`; `a` and `b` are
/// views `[rows, 1, Hv]` (columns of a joined projection, say).
///
/// # Panics
/// If the shapes differ.
pub fn gates(
    exec: &Exec,
    a: Heads<'_>,
    b: Heads<'_>,
    a_log: &[f32],
    dt_bias: &[f32],
    alpha: &mut [f32],
    beta: &mut [f32],
) {
    let heads = a_log.len();
    assert!(
        a.heads() == 1 && a.dim() == heads && b.heads() == 1 && b.dim() == heads,
        "delta gates: width {heads}"
    );
    assert_eq!(dt_bias.len(), heads, "delta gates: dt_bias length");
    assert_eq!((alpha.len(), beta.len()), (a.len(), b.len()), "delta gates: output lengths");
    dispatch!(exec.isa, |s| {
        for (row, out) in alpha.chunks_exact_mut(heads).enumerate() {
            out.copy_from_slice(a.head(row, 0));
            zip_in_place(
                s,
                out,
                dt_bias,
                #[inline(always)]
                |a, bias| math::softplus(s, s.add(a, bias)),
            );
            zip_in_place(
                s,
                out,
                a_log,
                #[inline(always)]
                |x, a_log| math::exp(s, s.neg(s.mul(math::exp(s, a_log), x))),
            );
        }
        for (row, out) in beta.chunks_exact_mut(heads).enumerate() {
            out.copy_from_slice(b.head(row, 0));
            math::apply(
                s,
                out,
                #[inline(always)]
                |x| math::sigmoid(s, x),
            );
        }
    });
}

/// Runs the recurrence over the rows of a block.
///
/// The state before the block is read from `from`, the one after it is left in `state`; with `from` = `None` the block
/// continues `state` in place. Layout of a state: [`DeltaShape::state_index`]; a zero state is all zeros. `out` takes `[rows, Hv, Dv]`; a replay passes `None`.
///
/// # Panics
/// If the lengths do not match `shape`.
pub fn step(
    exec: &Exec,
    shape: DeltaShape,
    rows: DeltaRows<'_>,
    from: Option<&[f32]>,
    state: &mut [f32],
    out: Option<&mut [f32]>,
) {
    let count = rows.alpha.len() / shape.value_heads;
    assert_eq!(
        rows.alpha.len(),
        count * shape.value_heads,
        "delta step: alpha of {} heads",
        shape.value_heads
    );
    assert_eq!(rows.beta.len(), rows.alpha.len(), "delta step: beta against alpha");
    assert_eq!(rows.qkv.len(), count * shape.qkv_width(), "delta step: q, k, v of {count} rows");
    assert_eq!(state.len(), shape.state_len(), "delta step: state length");
    assert!(
        from.is_none_or(|from| from.len() == shape.state_len()),
        "delta step: length of the state before"
    );
    assert!(
        out.as_ref().is_none_or(|out| out.len() == count * shape.out_width()),
        "delta step: output length"
    );

    let head_len = shape.key_dim * shape.value_dim;
    let out = out.map(Parts::new);
    let job = |head: usize, state: &mut [f32]| {
        let from = from.map(|from| &from[head * head_len..(head + 1) * head_len]);
        let job = step::Head { shape, rows, count, index: head, out: out.as_ref() };
        dispatch!(exec.isa, |s| job.run(s, from, state));
    };
    if count * shape.state_len() < STEP_SPLIT {
        state.chunks_exact_mut(head_len).enumerate().for_each(|(head, state)| job(head, state));
    } else {
        exec.pool.run_chunks(state, head_len, job);
    }
}

/// `rms_norm(o; weight, eps) · silu(z)` per value head, in place on `o` `[rows, Hv, Dv]`; `z` is a view of that shape, `weight`
/// `[Dv]` is plain.
///
/// # Panics
/// If the shapes differ.
pub fn gated_norm(exec: &Exec, o: &mut [f32], z: Heads<'_>, weight: &[f32], eps: f32) {
    let (heads, dim) = (z.heads(), z.dim());
    assert_eq!(o.len(), z.len(), "gated norm: values against gates");
    assert_eq!(weight.len(), dim, "gated norm: weight length");
    by_rows(exec, o, heads * dim, SPLIT, |rows, o| {
        dispatch!(exec.isa, |s| {
            let mut normed = vec![0.0; dim];
            for (row, o) in rows.zip(o.chunks_exact_mut(heads * dim)) {
                for (head, o) in o.chunks_exact_mut(dim).enumerate() {
                    norm_row(s, o, Some(weight), eps, &mut normed);
                    o.copy_from_slice(&normed);
                    zip_in_place(
                        s,
                        o,
                        z.head(row, head),
                        #[inline(always)]
                        |o, z| s.mul(o, math::silu(s, z)),
                    );
                }
            }
        });
    });
}
