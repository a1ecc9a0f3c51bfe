//! Quantized weights: exact integer sums per group, then f32 over the groups in order.
//!
//! Per output and row, over groups in order: `t = sum(code * x_int)` in integers; `acc = fma(t, scale * 2^e,
//! acc)`; `acc = fma(bias, 2^e * sum(x_int), acc)`.
//!
//! Layout: blocks of 16 outputs; per block, per group: 16 scales, 16 biases, codes ([`super::codes`]).

use std::ops::Range;

use crate::simd::LANES;
use crate::{Exec, dispatch};

use super::activations::LinearScratch;
use super::buffer::Buffer;
use super::codes::{Codes, STEP, pack_group};
use super::dot::{BYTE, Dot, E2M1, NIBBLE};
use super::format::{FloatType, QuantFormat, e4m3, e8m0};
use super::walk::{Output, Tile, split, walk};
use super::weights::{LinearPart, LinearWeights};
use super::{Rows, read_float};

/// Bytes that a cold tile prefetches ahead in each block's stream.
const AHEAD: usize = 4096;

/// Quantized weights in blocks.
pub(super) struct Quantized {
    data: Buffer,
    layout: Layout,
}

/// How they lie there.
#[derive(Clone, Copy)]
struct Layout {
    codes: Codes,
    /// Type of scales and biases.
    dtype: FloatType,
    group: usize,
    inputs: usize,
    outputs: usize,
}

impl Quantized {
    /// Packs checked parts of one format (not mxfp8).
    pub(super) fn pack(
        exec: &Exec,
        parts: &[LinearPart<'_>],
        format: QuantFormat,
        inputs: usize,
    ) -> Quantized {
        let LinearWeights::Quantized { dtype, .. } = parts[0].weights else {
            unreachable!("checked by the caller")
        };
        let (codes, dtype) = match format {
            // Codes of 2 and 3 bits are nibbles, of 5 and 6 bits bytes: the same integers.
            QuantFormat::Affine { bits, .. } => (if bits <= 4 { Codes::Nibble } else { Codes::Byte }, dtype),
            // Powers of two and 4 significant bits, times 3, fit bf16.
            QuantFormat::Mxfp4 | QuantFormat::Nvfp4 | QuantFormat::Mxfp8 => (Codes::E2m1, FloatType::Bf16),
        };
        let rows = Rows::new(parts);
        let layout = Layout { codes, dtype, group: format.group(), inputs, outputs: rows.len() };
        let blocks = layout.outputs.div_ceil(LANES);
        let data = Buffer::build(&exec.pool, blocks, layout.block_bytes(), |block, out| {
            for (lane, output) in (block * LANES..layout.outputs).take(LANES).enumerate() {
                let (part, row) = rows.find(output);
                layout.pack_row(out, lane, &part.weights, format, row);
            }
        });
        Quantized { data, layout }
    }
}

impl Layout {
    fn pack_row(
        &self,
        block: &mut [u8],
        lane: usize,
        weights: &LinearWeights<'_>,
        format: QuantFormat,
        row: usize,
    ) {
        let LinearWeights::Quantized { weight, scales, biases, .. } = *weights else { return };
        let (size, groups, group_bits) = (self.dtype.size(), self.groups(), self.group * format.bits());
        for (g, out) in block.chunks_exact_mut(self.group_bytes()).enumerate() {
            let (head, codes) = out.split_at_mut(self.head_bytes());
            let at = row * groups + g;
            pack_group(
                self.codes,
                codes,
                lane,
                &weight[at * group_bits / 8..][..group_bits / 8],
                format.bits(),
            );
            let (scale, bias) = head.split_at_mut(LANES * size);
            let (scale, bias) = (&mut scale[lane * size..][..size], &mut bias[lane * size..][..size]);
            if let QuantFormat::Affine { .. } = format {
                scale.copy_from_slice(&scales[at * size..][..size]);
                bias.copy_from_slice(&biases[at * size..][..size]);
            } else {
                // (biased - 12) * scale / 2, see `E2M1_BIASED`.
                let full = if format == QuantFormat::Nvfp4 { e4m3(scales[at]) } else { e8m0(scales[at]) };
                let bf16 = |v: f32| crate::simd::f32_to_bf16(v).to_le_bytes();
                scale.copy_from_slice(&bf16(full / 2.0));
                bias.copy_from_slice(&bf16(full * -6.0));
            }
        }
    }

    fn groups(&self) -> usize {
        self.inputs / self.group
    }
    fn head_bytes(&self) -> usize {
        2 * LANES * self.dtype.size()
    }
    fn group_bytes(&self) -> usize {
        self.head_bytes() + self.group / STEP * self.codes.step_bytes()
    }
    fn block_bytes(&self) -> usize {
        self.groups() * self.group_bytes()
    }
}

impl Quantized {
    /// Bytes of the packed weights.
    pub(super) fn bytes(&self) -> usize {
        self.data.bytes().len()
    }

    /// Dequantized weights of output `index`: `fma(code, scale, bias)`.
    pub(super) fn row(&self, index: usize, out: &mut [f32]) {
        let layout = self.layout;
        let (block, lane, size) = (index / LANES, index % LANES, layout.dtype.size());
        let block = &self.data.bytes()[block * layout.block_bytes()..][..layout.block_bytes()];
        for (group, out) in block.chunks_exact(layout.group_bytes()).zip(out.chunks_exact_mut(layout.group)) {
            let (head, codes) = group.split_at(layout.head_bytes());
            let scale = read_float(layout.dtype, &head[lane * size..]);
            let bias = read_float(layout.dtype, &head[(LANES + lane) * size..]);
            for (step, out) in codes.chunks_exact(layout.codes.step_bytes()).zip(out.chunks_exact_mut(STEP)) {
                for (code, out) in layout.codes.get(step, lane).into_iter().zip(out) {
                    *out = f32::from(code).mul_add(scale, bias);
                }
            }
        }
    }

    /// `out[r] = weights * x[r]`, `x`: `[rows, in]`, `out`: `[rows, out]`.
    pub(super) fn forward(&self, exec: &Exec, x: &[f32], out: &mut [f32], scratch: &mut LinearScratch) {
        let layout = self.layout;
        let rows = x.len() / layout.inputs;
        scratch.quantize(exec, x, layout.inputs, layout.group);
        let (act, output) = (&*scratch, &Output::new(out, layout.outputs));
        split(&exec.pool, rows, layout.outputs.div_ceil(LANES), 2 * layout.inputs, |blocks, rows| {
            // Tiles enter the target features one by one; see `Tile for Product`.
            dispatch!(exec.isa, |s| self.part(s, act, output, blocks, rows));
        });
        for (out, groups) in
            out.chunks_exact_mut(layout.outputs).zip(scratch.groups.chunks_exact(layout.groups()))
        {
            if groups[0].scale.is_nan() {
                // Already NaN, but a NaN weight would give it other bits.
                out.fill(f32::NAN);
            }
        }
    }

    fn part<S: Dot>(
        &self,
        s: S,
        act: &LinearScratch,
        output: &Output,
        blocks: Range<usize>,
        rows: Range<usize>,
    ) {
        macro_rules! go {
            ($codes:expr) => {{
                let product = Product::<S, { $codes }> { s, weights: self, act, output };
                // SAFETY: `split` hands each part to one thread; ranges are within the product.
                unsafe { walk::<S, _>(&product, blocks, rows) }
            }};
        }
        match self.layout.codes {
            Codes::Nibble => go!(NIBBLE),
            Codes::Byte => go!(BYTE),
            Codes::E2m1 => go!(E2M1),
        }
    }
}

/// A product in progress; `CODES` is [`Codes`] as a number.
struct Product<'a, S, const CODES: u8> {
    s: S,
    weights: &'a Quantized,
    act: &'a LinearScratch,
    output: &'a Output,
}

impl<S: Dot, const CODES: u8> Tile<S> for Product<'_, S, CODES> {
    const SUMS: usize = 1;

    #[inline]
    unsafe fn tile<const M: usize, const C: usize>(&self, row: usize, column: usize, cold: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            if cold {
                self.s.vectorize(
                    #[inline(always)]
                    |_| self.compute::<M, C, true>(row, column),
                );
            } else {
                self.s.vectorize(
                    #[inline(always)]
                    |_| self.compute::<M, C, false>(row, column),
                );
            }
        }
    }
}

impl<S: Dot, const CODES: u8> Product<'_, S, CODES> {
    const STEP_BYTES: usize = if CODES == BYTE { 128 } else { 64 };

    /// # Safety
    /// As [`Tile::tile`].
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "several arrays share an index, which unrolls")]
    unsafe fn compute<const M: usize, const C: usize, const COLD: bool>(&self, row: usize, column: usize) {
        let (s, w) = (self.s, self.weights.layout);
        let (groups, steps, head) = (w.groups(), w.group / STEP, w.head_bytes());
        let (group_bytes, block_bytes) = (w.group_bytes(), w.block_bytes());
        let data = self.weights.data.bytes();
        debug_assert!((column + C).div_ceil(S::PARTS) * block_bytes <= data.len());
        debug_assert!((row + M) * groups <= self.act.groups.len());
        // SAFETY: columns and rows are within the buffers (asserted above for tests, promised by the caller).
        unsafe {
            // Where each register's block begins, its scales lie in a group's head, and its codes in a step.
            let mut blocks = [data.as_ptr(); C];
            let (mut heads, mut codes) = (blocks, blocks);
            for c in 0..C {
                let (block, part) = ((column + c) / S::PARTS, (column + c) % S::PARTS);
                blocks[c] = data.as_ptr().add(block * block_bytes);
                heads[c] = blocks[c].add(part * S::WIDTH * w.dtype.size());
                codes[c] = blocks[c].add(head + part * S::WIDTH * 4);
            }
            let x = self.act.steps.as_ptr().add(row * groups * steps);
            let scales = self.act.groups.as_ptr().add(row * groups);
            let mut acc = [[s.repeat(0.0); C]; M];
            for g in 0..groups {
                let mut sums = [[s.zero(); C]; M];
                // The end of a block is followed by the next tile's blocks.
                let past = g * group_bytes + AHEAD >= block_bytes;
                let ahead = if past { AHEAD + (C.div_ceil(S::PARTS) - 1) * block_bytes } else { AHEAD };
                for step in 0..steps {
                    let offset = g * group_bytes + step * Self::STEP_BYTES;
                    let mut at = codes;
                    for c in 0..C {
                        at[c] = codes[c].add(offset);
                        // One register of each block asks for its lines.
                        if COLD && c.is_multiple_of(S::PARTS) {
                            for line in (0..Self::STEP_BYTES).step_by(64) {
                                prefetch(blocks[c].wrapping_add(offset + head + ahead + line));
                            }
                        }
                    }
                    let first = x.add(g * steps + step);
                    let mut rows = [&*first; M];
                    for m in 1..M {
                        rows[m] = &*first.add(m * groups * steps);
                    }
                    s.dots::<CODES, M, C>(&mut sums, at, rows);
                }
                for c in 0..C {
                    let at = heads[c].add(g * group_bytes);
                    if COLD {
                        prefetch(at.wrapping_add(ahead));
                    }
                    let scale = s.read(w.dtype, at);
                    let bias = s.read(w.dtype, at.add(LANES * w.dtype.size()));
                    for m in 0..M {
                        let x = &*scales.add(m * groups + g);
                        let t = s.total(sums[m][c]);
                        let sum = s.plus_product(t, s.times(scale, s.repeat(x.scale)), acc[m][c]);
                        acc[m][c] = s.plus_product(bias, s.repeat(x.sum), sum);
                    }
                }
            }
            for m in 0..M {
                for c in 0..C {
                    self.output.store(s, row + m, column + c, acc[m][c]);
                }
            }
        }
    }
}

/// Asks for the cache line at `p`, which need not be a valid address.
#[inline(always)]
pub(super) fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, never a fault; part of every x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}
