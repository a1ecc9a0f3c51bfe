//! Dense weights: f32 sums, even and odd inputs apart, each in order, then added.
//!
//! Layout: blocks of 16 outputs. bf16: `[in / 2][16][2]`, so that a mask and a shift give f32. f16 and f32:
//! `[in][16]`.

use std::ops::Range;

use crate::simd::{LANES, f32_to_bf16};
use crate::{Exec, dispatch};

use super::buffer::Buffer;
use super::format::{FloatType, QuantFormat, e4m3, e8m0};
use super::quantized::prefetch;
use super::register::Register;
use super::walk::{Output, Tile, split, walk};
use super::weights::{LinearPart, LinearWeights};
use super::{Rows, read_float};

/// Bytes that a tile prefetches ahead in each block's stream.
const AHEAD: usize = 3072;

/// Dense weights in blocks.
pub(super) struct Dense {
    data: Buffer,
    dtype: FloatType,
    inputs: usize,
    outputs: usize,
}

impl Dense {
    /// Packs checked parts, dense ones of type `dtype` or mxfp8 (as bf16, which holds its values exactly from
    /// `2^-133` on).
    pub(super) fn pack(exec: &Exec, parts: &[LinearPart<'_>], dtype: FloatType, inputs: usize) -> Dense {
        let rows = Rows::new(parts);
        let (outputs, row_bytes) = (rows.len(), inputs * dtype.size());
        let data = Buffer::build(&exec.pool, outputs.div_ceil(LANES), LANES * row_bytes, |block, out| {
            for (lane, output) in (block * LANES..outputs).take(LANES).enumerate() {
                let (part, row) = rows.find(output);
                match part.weights {
                    LinearWeights::Dense { bytes, .. } => {
                        interleave(dtype, out, lane, &bytes[row * row_bytes..][..row_bytes]);
                    }
                    LinearWeights::Quantized { weight, scales, .. } => {
                        let codes = &weight[row * inputs..][..inputs];
                        interleave(dtype, out, lane, &mxfp8_as_bf16(codes, &scales[row * inputs / MXFP8..]));
                    }
                }
            }
        });
        Dense { data, dtype, inputs, outputs }
    }

    fn block_bytes(&self) -> usize {
        self.inputs * LANES * self.dtype.size()
    }
    /// Bytes of the packed weights.
    pub(super) fn bytes(&self) -> usize {
        self.data.bytes().len()
    }

    /// Weights of output `index` as f32, exact.
    pub(super) fn row(&self, index: usize, out: &mut [f32]) {
        let block = &self.data.bytes()[index / LANES * self.block_bytes()..][..self.block_bytes()];
        let (unit, size, lane) = (unit(self.dtype), self.dtype.size(), index % LANES);
        let units = block.chunks_exact(LANES * unit).map(|all| &all[lane * unit..][..unit]);
        for (out, unit) in out.chunks_exact_mut(unit / size).zip(units) {
            for (out, bytes) in out.iter_mut().zip(unit.chunks_exact(size)) {
                *out = read_float(self.dtype, bytes);
            }
        }
    }

    /// `out[r] = weights * x[r]`, `x`: `[rows, in]`, `out`: `[rows, out]`.
    pub(super) fn forward(&self, exec: &Exec, x: &[f32], out: &mut [f32]) {
        let (rows, output) = (x.len() / self.inputs, &Output::new(out, self.outputs));
        split(&exec.pool, rows, self.outputs.div_ceil(LANES), 4 * self.inputs, |blocks, rows| {
            dispatch!(exec.isa, |s| self.part(s, x, output, blocks, rows));
        });
        for (out, x) in out.chunks_exact_mut(self.outputs).zip(x.chunks_exact(self.inputs)) {
            if !x.iter().all(|v| v.is_finite()) {
                out.fill(f32::NAN);
            }
        }
    }

    fn part<S: Register>(&self, s: S, x: &[f32], output: &Output, blocks: Range<usize>, rows: Range<usize>) {
        macro_rules! go {
            ($dtype:expr) => {{
                let product = Product::<S, { $dtype }> { s, weights: self, x, output };
                // SAFETY: `split` hands each part to one thread; ranges are within the product.
                unsafe { walk::<S, _>(&product, blocks, rows) }
            }};
        }
        match self.dtype {
            FloatType::Bf16 => go!(BF16),
            FloatType::F16 => go!(F16),
            FloatType::F32 => go!(F32),
        }
    }
}

/// Bytes of a row that stay together in a block: two bf16, one f16 or f32.
const fn unit(dtype: FloatType) -> usize {
    match dtype {
        FloatType::F16 => 2,
        FloatType::Bf16 | FloatType::F32 => 4,
    }
}

/// Writes the row of output `lane` of a block.
fn interleave(dtype: FloatType, block: &mut [u8], lane: usize, row: &[u8]) {
    fn units<const N: usize>(block: &mut [u8], lane: usize, row: &[u8]) {
        for (all, unit) in block.as_chunks_mut::<N>().0.chunks_exact_mut(LANES).zip(row.as_chunks::<N>().0) {
            all[lane] = *unit;
        }
    }
    if unit(dtype) == 2 { units::<2>(block, lane, row) } else { units::<4>(block, lane, row) }
}

/// Inputs that share an mxfp8 scale.
const MXFP8: usize = QuantFormat::Mxfp8.group();

/// Values of a row of mxfp8 codes.
fn mxfp8_as_bf16(codes: &[u8], scales: &[u8]) -> Vec<u8> {
    let groups = codes.chunks_exact(MXFP8).zip(scales);
    let values = groups.flat_map(|(codes, &scale)| codes.iter().map(move |&code| e4m3(code) * e8m0(scale)));
    values.flat_map(|value| f32_to_bf16(value).to_le_bytes()).collect()
}

/// [`FloatType`] as numbers, for kernels compiled for each.
const BF16: u8 = 0;
const F16: u8 = 1;
const F32: u8 = 2;

/// A product in progress; `DTYPE` is [`FloatType`] as a number.
struct Product<'a, S, const DTYPE: u8> {
    s: S,
    weights: &'a Dense,
    x: &'a [f32],
    output: &'a Output,
}

impl<S: Register, const DTYPE: u8> Tile<S> for Product<'_, S, DTYPE> {
    const SUMS: usize = 2;

    #[inline]
    unsafe fn tile<const M: usize, const C: usize>(&self, row: usize, column: usize, _cold: bool) {
        self.s.vectorize(
            #[inline(always)]
            // SAFETY: the caller's promise.
            |_| unsafe { self.compute::<M, C>(row, column) },
        );
    }
}

impl<S: Register, const DTYPE: u8> Product<'_, S, DTYPE> {
    /// Bytes of two inputs of a block.
    const PAIR_BYTES: usize = if DTYPE == F32 { 128 } else { 64 };

    /// # Safety
    /// As [`Tile::tile`].
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "several arrays share an index, which unrolls")]
    unsafe fn compute<const M: usize, const C: usize>(&self, row: usize, column: usize) {
        let (s, inputs, block_bytes) = (self.s, self.weights.inputs, self.weights.block_bytes());
        let data = self.weights.data.bytes();
        debug_assert!((column + C).div_ceil(S::PARTS) * block_bytes <= data.len());
        debug_assert!((row + M) * inputs <= self.x.len());
        // SAFETY: columns and rows are within the buffers (asserted above for tests, promised by the caller).
        unsafe {
            let mut weights = [data.as_ptr(); C];
            for c in 0..C {
                let (block, part) = ((column + c) / S::PARTS, (column + c) % S::PARTS);
                weights[c] =
                    data.as_ptr().add(block * block_bytes + part * S::WIDTH * unit(self.weights.dtype));
            }
            let x = self.x.as_ptr().add(row * inputs);
            let mut even = [[s.repeat(0.0); C]; M];
            let mut odd = even;
            for pair in 0..inputs / 2 {
                // The end of a block is followed by the next tile's blocks.
                let past = pair * Self::PAIR_BYTES + AHEAD >= block_bytes;
                let ahead = if past { AHEAD + (C.div_ceil(S::PARTS) - 1) * block_bytes } else { AHEAD };
                for c in 0..C {
                    let at = weights[c].add(pair * Self::PAIR_BYTES);
                    // One register of each block asks for its lines.
                    if c.is_multiple_of(S::PARTS) {
                        prefetch(at.wrapping_add(ahead));
                        if DTYPE == F32 {
                            prefetch(at.wrapping_add(ahead + 64));
                        }
                    }
                    let [w0, w1] = self.pair(at);
                    for m in 0..M {
                        let x = x.add(m * inputs + 2 * pair);
                        even[m][c] = s.plus_product(w0, s.repeat(*x), even[m][c]);
                        odd[m][c] = s.plus_product(w1, s.repeat(*x.add(1)), odd[m][c]);
                    }
                }
            }
            for m in 0..M {
                for c in 0..C {
                    self.output.store(s, row + m, column + c, s.plus(even[m][c], odd[m][c]));
                }
            }
        }
    }

    /// Weights of two inputs, a register of outputs each.
    ///
    /// # Safety
    /// `at` is the start of a register's part of a pair.
    #[inline(always)]
    unsafe fn pair(&self, at: *const u8) -> [S::R; 2] {
        let s = self.s;
        // SAFETY: a pair has these bytes.
        unsafe {
            match DTYPE {
                BF16 => s.read_bf16_pair(at),
                F16 => [s.read(FloatType::F16, at), s.read(FloatType::F16, at.add(32))],
                _ => [s.read(FloatType::F32, at), s.read(FloatType::F32, at.add(64))],
            }
        }
    }
}
