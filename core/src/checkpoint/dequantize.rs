//! Packed weights back to numbers, on the host, in f32.
//!
//! Exact up to the one rounding of each product and sum in f32: scale and bias are raised to f32 first. MLX's own
//! `dequantize` rounds to the dtype of the scales, so it can differ by half a unit there.

use super::Mode;
use super::floats::{e2m1, e4m3, e8m0, to_f32};
use super::linear::{Dense, LinearTensors, Quantized};
use super::quantization::WORD;

impl LinearTensors<'_> {
    /// Rows.
    pub fn out(&self) -> usize {
        match self {
            Self::Dense(dense) => dense.out,
            Self::Quantized(quantized) => quantized.out,
        }
    }

    /// Columns.
    pub fn input(&self) -> usize {
        match self {
            Self::Dense(dense) => dense.input,
            Self::Quantized(quantized) => quantized.input,
        }
    }

    /// All numbers, `[out, input]` row-major.
    pub fn to_f32(&self) -> Vec<f32> {
        match self {
            Self::Dense(dense) => to_f32(dense.dtype, dense.bytes).collect(),
            Self::Quantized(quantized) => quantized.to_f32(),
        }
    }

    /// The numbers of row `row` (below `out`), `[input]`.
    pub fn row(&self, row: usize) -> Vec<f32> {
        match self {
            Self::Dense(dense) => dense.row(row),
            Self::Quantized(quantized) => quantized.row(row),
        }
    }
}

impl Dense<'_> {
    /// The numbers of row `row` (below `out`), `[input]`.
    pub fn row(&self, row: usize) -> Vec<f32> {
        to_f32(self.dtype, slice(self.bytes, self.out, row)).collect()
    }
}

impl Quantized<'_> {
    /// All numbers, `[out, input]` row-major.
    pub fn to_f32(&self) -> Vec<f32> {
        (0..self.out).flat_map(|row| self.row(row)).collect()
    }

    /// The numbers of row `row` (below `out`), `[input]`.
    pub fn row(&self, row: usize) -> Vec<f32> {
        let codes = codes(slice(self.weight, self.out, row), self.packing.bits);
        let raw = slice(self.scales, self.out, row);
        let (value, scales): (fn(u32) -> f32, Vec<f32>) = match self.packing.mode {
            Mode::Affine => (|code| code as f32, to_f32(self.scales_dtype, raw).collect()),
            Mode::Mxfp4 => (e2m1, raw.iter().map(|code| e8m0(*code)).collect()),
            Mode::Mxfp8 => (e4m3, raw.iter().map(|code| e8m0(*code)).collect()),
            Mode::Nvfp4 => (e2m1, raw.iter().map(|code| e4m3(u32::from(*code))).collect()),
        };
        let biases: Option<Vec<f32>> =
            self.biases.map(|biases| to_f32(self.scales_dtype, slice(biases, self.out, row)).collect());
        let number = |(at, code)| {
            let group = at / self.packing.group;
            let scaled = value(code) * scales[group];
            biases.as_ref().map_or(scaled, |biases| scaled + biases[group])
        };
        codes.enumerate().map(number).collect()
    }
}

/// Row `row` of a row-major table of `rows` rows.
fn slice(table: &[u8], rows: usize, row: usize) -> &[u8] {
    let width = table.len().checked_div(rows).unwrap_or(0);
    &table[row * width..][..width]
}

/// The codes of one packed row: code i is bits `i·bits ..(i+1)·bits` of the row as one little-endian bit string, so
/// that widths 3, 5 and 6 run across words.
fn codes(row: &[u8], bits: usize) -> impl Iterator<Item = u32> {
    let mask = (1u64 << bits) - 1;
    let word = |at: usize| {
        let bytes = row.get(at * 4..at * 4 + 4).and_then(|bytes| bytes.first_chunk::<4>());
        bytes.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)))
    };
    (0..row.len() * 8 / bits).map(move |code| {
        let bit = code * bits;
        let pair = word(bit / WORD) | word(bit / WORD + 1) << WORD;
        (pair >> (bit % WORD) & mask) as u32
    })
}

#[cfg(test)]
mod tests;
