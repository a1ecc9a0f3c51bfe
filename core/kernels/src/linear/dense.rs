//! Dense weights: f32 sums, even and odd inputs apart, each in order, then added.
//!
//! Layout: blocks of 16 outputs. bf16: `[in / 2][16][2]`, so that a mask and a shift give f32. f16 and f32:
//! `[in][16]`.

use std::ops::Range;

use crate::simd::{LANES, Simd, f32_to_bf16};
use crate::{Exec, dispatch};

use super::buffer::Buffer;
use super::format::{FloatType, QuantFormat, e4m3, e8m0};
use super::quantized::prefetch;
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

    fn part<S: Simd>(&self, s: S, x: &[f32], output: &Output, blocks: Range<usize>, rows: Range<usize>) {
        macro_rules! go {
            ($dtype:literal) => {{
                let product = Product::<S, $dtype> { s, weights: self, x, output };
                // SAFETY: `split` hands each part to one thread; ranges are within the product.
                unsafe { walk::<S, _>(&product, blocks, rows) }
            }};
        }
        match self.dtype {
            FloatType::Bf16 => go!(0),
            FloatType::F16 => go!(1),
            FloatType::F32 => go!(2),
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

/// A product in progress; `DTYPE` is [`FloatType`] as a number.
struct Product<'a, S, const DTYPE: u8> {
    s: S,
    weights: &'a Dense,
    x: &'a [f32],
    output: &'a Output,
}

impl<S: Simd, const DTYPE: u8> Tile for Product<'_, S, DTYPE> {
    #[inline]
    unsafe fn tile<const M: usize, const NB: usize>(&self, row: usize, block: usize, _cold: bool) {
        self.s.vectorize(
            #[inline(always)]
            // SAFETY: the caller's promise.
            |_| unsafe { self.compute::<M, NB>(row, block) },
        );
    }
}

impl<S: Simd, const DTYPE: u8> Product<'_, S, DTYPE> {
    /// Bytes of two inputs of a block.
    const PAIR_BYTES: usize = if DTYPE == 2 { 128 } else { 64 };

    /// # Safety
    /// As [`Tile::tile`].
    #[inline(always)]
    unsafe fn compute<const M: usize, const NB: usize>(&self, row: usize, block: usize) {
        let (s, inputs, block_bytes) = (self.s, self.weights.inputs, self.weights.block_bytes());
        let data = self.weights.data.bytes();
        debug_assert!((block + NB) * block_bytes <= data.len() && (row + M) * inputs <= self.x.len());
        // SAFETY: blocks and rows are within the buffers (asserted above for tests, promised by the caller).
        unsafe {
            let weights = data.as_ptr().add(block * block_bytes);
            let x = self.x.as_ptr().add(row * inputs);
            let mut even = [[s.splat(0.0); NB]; M];
            let mut odd = even;
            for pair in 0..inputs / 2 {
                // The end of a block is followed by the next tile's blocks.
                let past = pair * Self::PAIR_BYTES + AHEAD >= block_bytes;
                let ahead = if past { AHEAD + (NB - 1) * block_bytes } else { AHEAD };
                for b in 0..NB {
                    let at = weights.add(b * block_bytes + pair * Self::PAIR_BYTES);
                    prefetch(at.wrapping_add(ahead));
                    if DTYPE == 2 {
                        prefetch(at.wrapping_add(ahead + 64));
                    }
                    let (w0, w1) = self.pair(at);
                    for m in 0..M {
                        let x = x.add(m * inputs + 2 * pair);
                        even[m][b] = s.fma(w0, s.splat(*x), even[m][b]);
                        odd[m][b] = s.fma(w1, s.splat(*x.add(1)), odd[m][b]);
                    }
                }
            }
            for m in 0..M {
                for b in 0..NB {
                    self.output.store(s, row + m, block + b, s.add(even[m][b], odd[m][b]));
                }
            }
        }
    }

    /// Weights of two inputs, 16 outputs each.
    ///
    /// # Safety
    /// `at` is the start of a pair.
    #[inline(always)]
    unsafe fn pair(&self, at: *const u8) -> (S::F, S::F) {
        let s = self.s;
        // SAFETY: a pair has these bytes, at a multiple of 64.
        unsafe {
            match DTYPE {
                0 => {
                    let v = s.load_i(&*at.cast());
                    (s.of_bits(s.shl_i::<16>(v)), s.of_bits(s.and_i(v, s.splat_i(0xffff_0000_u32 as i32))))
                }
                1 => (s.load_f16(&*at.cast()), s.load_f16(&*at.add(32).cast())),
                _ => (s.load(&*at.cast()), s.load(&*at.add(64).cast())),
            }
        }
    }
}
