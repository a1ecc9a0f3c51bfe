//! Host values into MLX arrays.

use mlx_rs::Array;

use super::Executor;
use crate::Result;

/// A vector in the executor's dtype.
pub(crate) fn vector(values: &[f32], executor: Executor) -> Array {
    let Executor::Mlx(dtype) = executor;
    let array = Array::from_slice(values, &[values.len() as i32]);
    array.as_dtype(dtype).unwrap_or(array)
}

/// A matrix `[rows, width]` in the executor's dtype, evaluated.
pub(crate) fn matrix(values: &[f32], rows: usize, width: usize, executor: Executor) -> Result<Array> {
    let Executor::Mlx(dtype) = executor;
    let array = Array::from_slice(values, &[rows as i32, width as i32]).as_dtype(dtype)?;
    array.eval()?;
    Ok(array)
}

/// The transpose of a matrix, stored row after row, evaluated.
///
/// Products use weights as `[in, out]`: on CUDA only that layout gives a row the same bits in any block (spec "Row
/// invariance").
pub(crate) fn transposed(matrix: &Array) -> Result<Array> {
    let array = matrix.transpose()?.contiguous()?;
    array.eval()?;
    Ok(array)
}

/// Ids as an index array.
pub(crate) fn ids(tokens: &[crate::TokenId]) -> Array {
    let ids: Vec<u32> = tokens.iter().map(|token| token.0).collect();
    Array::from_slice(&ids, &[ids.len() as i32])
}
