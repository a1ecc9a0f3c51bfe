//! Grouped-query attention; see [`crate::nn::Attention`].

use mlxcel_kernels::{
    Exec, Heads, activation,
    attention::{self, KvBuffer},
    norm,
    rope::Rope,
};

use super::Rows;
use crate::{
    Position, Result,
    nn::{Attention, Mask, RmsNorm, Span},
    state::KvState,
};

/// Causal self-attention of every span: `[rows, q | k | v]` to `[rows, q]`; with `gated`, each head's gate lies behind its
/// query.
pub(crate) fn forward(layer: &Attention, qkv: &Rows, spans: &mut [Span<'_>], gated: bool) -> Result<Rows> {
    let exec = Exec::current();
    let (q_width, kv_width, head_dim) = (layer.q_width(), layer.kv_width(), layer.head_dim);
    let (k_column, head_stride) = if gated { (2 * q_width, 2 * head_dim) } else { (q_width, head_dim) };
    let by_query =
        |first| Heads::strided(qkv.values(), qkv.width(), first, layer.heads, head_stride, head_dim);
    let by_key = |first| Heads::columns(qkv.values(), qkv.width(), first, layer.kv_heads, head_dim);
    let mut q = normed(&exec, by_query(0), layer.q_norm.as_ref())?;
    let mut k = normed(&exec, by_key(k_column), layer.k_norm.as_ref())?;
    let v = by_key(k_column + kv_width);
    let mut result = Ok(());
    let out = Rows::build(qkv.rows(), q_width, |out| {
        result = spans.iter_mut().try_for_each(|span| {
            let (state, mask) = span.state.attention()?;
            let start = state.len();
            let q = &mut q[span.rows.start * q_width..span.rows.end * q_width];
            let k = &mut k[span.rows.start * kv_width..span.rows.end * kv_width];
            if let Some(rope) = rope(layer) {
                rope.apply(&exec, q, layer.heads, layer.head_dim, start);
                rope.apply(&exec, k, layer.kv_heads, layer.head_dim, start);
            }
            let k = Heads::packed(k, layer.kv_heads, layer.head_dim);
            let kv = state.append_cpu(k, v.slice(span.rows.clone()))?;
            let q = Heads::packed(q, layer.heads, layer.head_dim);
            let out = &mut out[span.rows.start * q_width..span.rows.end * q_width];
            attention::attend(&exec, q, kv, start, mask.into(), layer.scale, out);
            Ok(())
        });
        if gated {
            activation::sigmoid_mul(&exec, out, by_query(head_dim));
        }
    });
    result.map(|()| out)
}

/// Norms, rotates and appends keys and values `[rows, k | v]`.
pub(crate) fn append(layer: &Attention, kv: &Rows, state: &mut KvState) -> Result<()> {
    let exec = Exec::current();
    let all = |first| Heads::columns(kv.values(), kv.width(), first, layer.kv_heads, layer.head_dim);
    let mut k = normed(&exec, all(0), layer.k_norm.as_ref())?;
    if let Some(rope) = rope(layer) {
        rope.apply(&exec, &mut k, layer.kv_heads, layer.head_dim, state.len());
    }
    state.append_cpu(Heads::packed(&k, layer.kv_heads, layer.head_dim), all(layer.kv_width()))?;
    Ok(())
}

/// Attends from queries `[rows, q]` to the rows of a state.
pub(crate) fn attend(
    layer: &Attention,
    q: &Rows,
    kv: &KvBuffer,
    start: Position,
    mask: Mask,
) -> Result<Rows> {
    let exec = Exec::current();
    let mut q = normed(&exec, Heads::packed(q.values(), layer.heads, layer.head_dim), layer.q_norm.as_ref())?;
    if let Some(rope) = rope(layer) {
        rope.apply(&exec, &mut q, layer.heads, layer.head_dim, start.0);
    }
    let q = Heads::packed(&q, layer.heads, layer.head_dim);
    Ok(Rows::build(q.rows(), layer.q_width(), |out| {
        attention::attend(&exec, q, kv, start.0, mask.into(), layer.scale, out);
    }))
}

/// The heads, packed, normed one by one.
fn normed(exec: &Exec, heads: Heads<'_>, norm: Option<&RmsNorm>) -> Result<super::buffer::Buffer> {
    let mut out = super::buffer::Buffer::new(heads.len());
    if let Some(norm) = norm {
        norm::rms_norm(exec, heads, norm.cpu_weight()?, norm.eps(), &mut out);
    } else {
        let (count, dim) = (heads.heads(), heads.dim());
        for (i, out) in out.chunks_exact_mut(dim).enumerate() {
            out.copy_from_slice(heads.head(i / count, i % count));
        }
    }
    Ok(out)
}

fn rope(layer: &Attention) -> Option<&Rope> {
    layer.rope.as_ref().map(crate::nn::Rope::cpu)
}
