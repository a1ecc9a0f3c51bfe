//! Activations.

use std::ops::Range;

use mlx_rs::{Array, Dtype, ops, ops::indexing::TryIndexOp};

use crate::{Error, Result};

/// Rows of activations, `[rows, width]`, on the model's executor. Cloning is cheap: the values are shared and never
/// written in place.
#[derive(Clone, Debug)]
pub struct Tensor {
    array: Array,
}

impl Tensor {
    /// From host values in row order. `values.len()` must be `rows × width`.
    pub fn from_host(values: &[f32], rows: usize, width: usize) -> Result<Self> {
        if values.len() != rows * width {
            return Err(Error::shape("tensor", values.len(), rows * width));
        }
        Ok(Self::wrap(Array::from_slice(values, &[rows as i32, width as i32])))
    }

    /// Wraps an MLX array of shape `[rows, width]`.
    pub(crate) fn wrap(array: Array) -> Self {
        debug_assert_eq!(array.ndim(), 2, "activations are [rows, width]");
        Self { array }
    }

    /// The MLX array, `[rows, width]`.
    pub(crate) fn array(&self) -> &Array {
        &self.array
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.array.dim(0) as usize
    }

    /// Values in a row.
    pub fn width(&self) -> usize {
        self.array.dim(1) as usize
    }

    /// `self + other`, element by element.
    pub fn add(&self, other: &Self) -> Result<Self> {
        Ok(Self::wrap(ops::add(&self.array, &other.array)?))
    }

    /// The rows of `range`.
    pub fn slice_rows(&self, range: Range<usize>) -> Result<Self> {
        if range.end > self.rows() || range.start > range.end {
            return Err(Error::shape("row range", range.end, self.rows()));
        }
        if range == (0..self.rows()) {
            return Ok(self.clone());
        }
        Ok(Self::wrap(self.array.try_index((range.start as i32..range.end as i32, ..))?))
    }

    /// The columns of `range`.
    pub fn slice_features(&self, range: Range<usize>) -> Result<Self> {
        if range.end > self.width() || range.start > range.end {
            return Err(Error::shape("feature range", range.end, self.width()));
        }
        Ok(Self::wrap(self.array.try_index((.., range.start as i32..range.end as i32))?))
    }

    /// One after the other: `[Σ rows, width]`.
    pub fn concat_rows(parts: &[Self]) -> Result<Self> {
        Self::concat(parts, 0)
    }

    /// Side by side: `[rows, Σ width]`.
    pub fn concat_features(parts: &[Self]) -> Result<Self> {
        Self::concat(parts, 1)
    }

    fn concat(parts: &[Self], axis: i32) -> Result<Self> {
        if let [only] = parts {
            return Ok(only.clone());
        }
        let arrays: Vec<&Array> = parts.iter().map(|part| &part.array).collect();
        Ok(Self::wrap(ops::concatenate(&arrays, axis)?))
    }

    /// Computes now. Everything that outlives a round is evaluated: a lazy array keeps its inputs alive and fails on
    /// another thread.
    pub fn eval(&self) -> Result<()> {
        Ok(self.array.eval()?)
    }

    /// The values in f32 on the host, row after row.
    pub fn to_host(&self) -> Result<Vec<f32>> {
        if self.rows() * self.width() == 0 {
            return Ok(Vec::new());
        }
        let array = self.array.as_dtype(Dtype::Float32)?.contiguous()?;
        Ok(array.try_as_slice::<f32>().map_err(|e| Error::Mlx(e.to_string()))?.to_vec())
    }
}
