//! The MLX executor: MLX's own operators on lazy arrays.

mod attention;
mod conv;
mod delta;
mod linear;

pub(crate) use attention::{append, attend, forward};
pub(crate) use conv::{ShortConv, short_conv};
pub(crate) use delta::{DeltaArrays, GatedDelta, scan};
pub(crate) use linear::Linear;

use std::ops::Range;

use mlx_rs::{Array, Dtype, fast, ops, ops::indexing::TryIndexOp};

use crate::{Error, Result};

/// A vector in `dtype`.
pub(crate) fn vector(values: &[f32], dtype: Dtype) -> Result<Array> {
    Ok(Array::from_slice(values, &[values.len() as i32]).as_dtype(dtype)?)
}

/// A matrix `[rows, width]` in `dtype`, evaluated.
pub(crate) fn matrix(values: &[f32], rows: usize, width: usize, dtype: Dtype) -> Result<Array> {
    let array = Array::from_slice(values, &[rows as i32, width as i32]).as_dtype(dtype)?;
    array.eval()?;
    Ok(array)
}

/// Ids as an index array.
pub(crate) fn ids(tokens: &[crate::TokenId]) -> Array {
    let ids: Vec<u32> = tokens.iter().map(|token| token.0).collect();
    Array::from_slice(&ids, &[ids.len() as i32])
}

/// The rows of `range`.
pub(crate) fn slice_rows(x: &Array, range: Range<usize>) -> Result<Array> {
    if range == (0..x.dim(0) as usize) {
        return Ok(x.clone());
    }
    Ok(x.try_index((range.start as i32..range.end as i32, ..))?)
}

/// The columns of `range`.
pub(crate) fn slice_features(x: &Array, range: Range<usize>) -> Result<Array> {
    Ok(x.try_index((.., range.start as i32..range.end as i32))?)
}

/// Joined along `axis`.
pub(crate) fn concat(parts: &[&Array], axis: i32) -> Result<Array> {
    Ok(ops::concatenate(parts, axis)?)
}

/// The values in f32, row after row.
pub(crate) fn to_host(x: &Array) -> Result<Vec<f32>> {
    if x.size() == 0 {
        return Ok(Vec::new());
    }
    let array = x.as_dtype(Dtype::Float32)?.contiguous()?;
    array.to_vec_exact::<f32>().map_err(|error| Error::Mlx(error.to_string()))
}

/// The values as they lie in memory, row after row.
pub(crate) fn to_bytes(x: &Array) -> Result<Vec<u8>> {
    if x.size() == 0 {
        return Ok(Vec::new());
    }
    let array = x.contiguous()?.view_dtype(Dtype::Uint8)?;
    array.to_vec_exact::<u8>().map_err(|error| Error::Mlx(error.to_string()))
}

/// `silu(gate) ⊙ up` of joined rows.
pub(crate) fn silu_mul(gate_up: &Array) -> Result<Array> {
    let width = gate_up.dim(1) as usize / 2;
    let (gate, up) = (slice_features(gate_up, 0..width)?, slice_features(gate_up, width..2 * width)?);
    let silu = ops::multiply(&gate, ops::sigmoid(&gate)?)?;
    Ok(ops::multiply(silu, up)?)
}

/// `x ⊙ σ(gate)`.
pub(crate) fn sigmoid_mul(x: &Array, gate: &Array) -> Result<Array> {
    Ok(ops::multiply(x, ops::sigmoid(gate)?)?)
}

/// `x · factor`, in f32 and then rounded once.
pub(crate) fn scale(x: &Array, factor: f32) -> Result<Array> {
    Ok(ops::multiply(x.as_dtype(Dtype::Float32)?, Array::from_f32(factor))?.as_dtype(x.dtype())?)
}

/// `cap · tanh(x · multiplier / cap)`, in f32 whatever `x` is: rounded, the flat ends of the curve are full of ties.
pub(crate) fn softcap(x: &Array, multiplier: f32, cap: f32) -> Result<Array> {
    let y = ops::multiply(x.as_dtype(Dtype::Float32)?, Array::from_f32(multiplier / cap))?;
    Ok(ops::multiply(ops::tanh(&y)?, Array::from_f32(cap))?)
}

/// RMS norm over the last axis, whatever the shape in front of it.
pub(crate) fn rms_norm(x: &Array, weight: Option<&Array>, eps: f32) -> Result<Array> {
    Ok(fast::rms_norm(x, weight, eps)?)
}
