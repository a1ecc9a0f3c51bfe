//! Activations in memory.

use std::{ops::Range, sync::Arc};

use mlxcel_kernels::{Exec, activation};

use super::buffer::Buffer;
use crate::{Error, Result};

/// `[rows, width]` values in row order. Clones and row ranges share the memory.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    buffer: Arc<Buffer>,
    range: Range<usize>,
    width: usize,
}

impl Rows {
    /// Rows that `fill` writes, all of them.
    pub(crate) fn build(rows: usize, width: usize, fill: impl FnOnce(&mut [f32])) -> Self {
        let mut buffer = Buffer::new(rows * width);
        fill(&mut buffer);
        Self { buffer: Arc::new(buffer), range: 0..rows, width }
    }

    /// Rows.
    pub(crate) fn rows(&self) -> usize {
        self.range.len()
    }

    /// Values in a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// All values, row after row.
    pub(crate) fn values(&self) -> &[f32] {
        &self.buffer[self.range.start * self.width..self.range.end * self.width]
    }

    /// `self ← self + other`. Shapes are the caller's to check.
    pub(crate) fn add_assign(&mut self, other: &Self) {
        self.change(|values| activation::add(&Exec::current(), values, other.values()));
    }

    /// Adds `values`, `[width]`, to every row.
    pub(crate) fn add_to_rows(&mut self, values: &[f32]) {
        let width = self.width;
        self.change(|all| {
            for row in all.chunks_exact_mut(width) {
                row.iter_mut().zip(values).for_each(|(x, value)| *x += value);
            }
        });
    }

    /// Changes the values in place where nobody shares the memory, else in a copy.
    fn change(&mut self, change: impl FnOnce(&mut [f32])) {
        let values = self.range.start * self.width..self.range.end * self.width;
        if let Some(buffer) = Arc::get_mut(&mut self.buffer) {
            change(&mut buffer[values]);
            return;
        }
        *self = Self::build(self.rows(), self.width, |out| {
            out.copy_from_slice(self.values());
            change(out);
        });
    }
}

/// The rows of `range`.
pub(crate) fn slice_rows(x: &Rows, range: Range<usize>) -> Result<Rows> {
    let start = x.range.start;
    Ok(Rows { range: start + range.start..start + range.end, ..x.clone() })
}

/// The columns of `range`.
pub(crate) fn slice_features(x: &Rows, range: Range<usize>) -> Result<Rows> {
    let width = range.len();
    Ok(Rows::build(x.rows(), width, |out| {
        if width > 0 {
            for (out, row) in out.chunks_exact_mut(width).zip(x.values().chunks_exact(x.width)) {
                out.copy_from_slice(&row[range.clone()]);
            }
        }
    }))
}

/// One after the other.
pub(crate) fn concat_rows(parts: &[&Rows]) -> Result<Rows> {
    let width = parts.first().map_or(0, |part| part.width);
    if let Some(other) = parts.iter().find(|part| part.width != width) {
        return Err(Error::shape("width of joined rows", other.width, width));
    }
    let rows = parts.iter().map(|part| part.rows()).sum();
    Ok(Rows::build(rows, width, |mut out| {
        for part in parts {
            let (head, rest) = out.split_at_mut(part.values().len());
            head.copy_from_slice(part.values());
            out = rest;
        }
    }))
}

/// Side by side.
pub(crate) fn concat_features(parts: &[&Rows]) -> Result<Rows> {
    let rows = parts.first().map_or(0, |part| part.rows());
    if let Some(other) = parts.iter().find(|part| part.rows() != rows) {
        return Err(Error::shape("rows side by side", other.rows(), rows));
    }
    let width = parts.iter().map(|part| part.width).sum();
    Ok(Rows::build(rows, width, |out| {
        let mut first = 0;
        for part in parts {
            for (row, values) in part.values().chunks_exact(part.width.max(1)).enumerate() {
                out[row * width + first..][..part.width].copy_from_slice(values);
            }
            first += part.width;
        }
    }))
}
