//! Grouped-query attention; see [`crate::nn::Attention`].

use mlx_rs::{Array, fast, fast::ScaledDotProductAttentionMask as SdpaMask, ops, ops::indexing::TryIndexOp};
use mlxcel_kernels::attention;

use super::{concat, slice_features, slice_rows};
use crate::{
    Position, Result,
    nn::{Attention, Mask, RmsNorm, Rope, RopeStyle, Span},
    state::KvState,
};

/// Causal self-attention of every span: `[rows, q | k | v]` to `[rows, q]`; with `gated`, each head's gate lies behind its
/// query.
pub(crate) fn forward(layer: &Attention, qkv: &Array, spans: &mut [Span<'_>], gated: bool) -> Result<Array> {
    let (q_width, kv_width) = (layer.q_width(), layer.kv_width());
    let k_column = if gated { 2 * q_width } else { q_width };
    let mut q = slice_features(qkv, 0..k_column)?;
    let mut gate = None;
    if gated {
        let heads = q.reshape(&[q.dim(0), layer.heads as i32, 2, layer.head_dim as i32])?;
        let half = |i: i32| {
            let half = heads.try_index((.., .., i, ..))?;
            Ok::<_, crate::Error>(half.reshape(&[heads.dim(0), q_width as i32])?)
        };
        (q, gate) = (half(0)?, Some(half(1)?));
    }
    let kv = slice_features(qkv, k_column..k_column + 2 * kv_width)?;
    let mut rows = Vec::with_capacity(spans.len());
    for span in spans {
        let (state, mask) = span.state.attention()?;
        let start = Position(state.len());
        append(layer, &slice_rows(&kv, span.rows.clone())?, state)?;
        rows.push(attend(layer, &slice_rows(&q, span.rows.clone())?, state, start, mask)?);
    }
    let out = concat(&rows.iter().collect::<Vec<_>>(), 0)?;
    match gate {
        Some(gate) => Ok(ops::multiply(out, ops::sigmoid(gate)?)?),
        None => Ok(out),
    }
}

/// Norms, rotates and appends keys and values `[rows, k | v]`.
pub(crate) fn append(layer: &Attention, kv: &Array, state: &mut KvState) -> Result<()> {
    let kv_width = layer.kv_width();
    let k = heads(layer, &slice_features(kv, 0..kv_width)?, layer.kv_heads, layer.k_norm.as_ref())?;
    let k = rotate(layer, k, Position(state.len()))?;
    let v = heads(layer, &slice_features(kv, kv_width..2 * kv_width)?, layer.kv_heads, None)?;
    state.append_mlx(&k, &v)
}

/// Attends from queries `[rows, q]` to the rows of a state.
pub(crate) fn attend(
    layer: &Attention,
    q: &Array,
    state: &KvState,
    start: Position,
    mask: Mask,
) -> Result<Array> {
    let q = rotate(layer, heads(layer, q, layer.heads, layer.q_norm.as_ref())?, start)?;
    let (keys, values) = state.rows_mlx()?;
    let rows = q.dim(2);
    let windowed;
    let sdpa = match mask {
        Mask::Full => None,
        Mask::Causal if rows == 1 => None,
        // MLX aligns the last query with the last key.
        Mask::Causal => Some(SdpaMask::Causal),
        Mask::Window(_) | Mask::Within(_) | Mask::WithinInclusive(_) => {
            windowed = visible(mask, start, rows as usize, state);
            Some(SdpaMask::Array(&windowed))
        }
    };
    let out = fast::scaled_dot_product_attention(&q, &keys, &values, layer.scale, sdpa, None::<&Array>)?;
    Ok(out.transpose_axes(&[0, 2, 1, 3])?.reshape(&[rows, layer.q_width() as i32])?)
}

/// Whether each of `rows` queries from `start` on sees each row of `state`: `[rows, rows of the state]`.
fn visible(mask: Mask, start: Position, rows: usize, state: &KvState) -> Array {
    let (mask, keys) = (attention::Mask::from(mask), state.positions());
    let sees = |query: usize| {
        let seen = mask.visible(query, keys.clone());
        keys.clone().map(move |key| seen.contains(&key))
    };
    let seen: Vec<bool> = (start.0..start.0 + rows).flat_map(sees).collect();
    Array::from_slice(&seen, &[rows as i32, keys.len() as i32])
}

/// `[rows, count · head_dim]` to `[1, count, rows, head_dim]`, normed per head.
fn heads(layer: &Attention, x: &Array, count: usize, norm: Option<&RmsNorm>) -> Result<Array> {
    let mut array = x.reshape(&[1, x.dim(0), count as i32, layer.head_dim as i32])?;
    if let Some(norm) = norm {
        array = norm.apply_mlx(&array)?;
    }
    Ok(array.transpose_axes(&[0, 2, 1, 3])?)
}

/// Rotates heads `[1, heads, rows, head_dim]`, the first row at `start`.
fn rotate(layer: &Attention, heads: Array, start: Position) -> Result<Array> {
    let Some(Rope { base, dims, style, .. }) = layer.rope else { return Ok(heads) };
    let traditional = style == RopeStyle::Interleaved;
    Ok(fast::rope(&heads, dims as i32, traditional, base, 1.0, start.0 as i32, None::<&Array>)?)
}
