//! How keys and values lie in memory, as f32 or bf16.
//!
//! Two vectors of 16 values form a *pair*: two lines of f32, or one line whose 32-bit lanes hold two bf16 (first vector in
//! the low half). Keys of a tile of 16 positions: one pair per two dimensions, lanes are positions. Values of a position:
//! one pair per 32 dimensions, lanes are dimensions. Both forms are read with one load a line and no shuffles.

use crate::simd::{Simd, f32_to_bf16};

/// 64 bytes that start on a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [i32; 16]);

/// Type of stored keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvDtype {
    /// As computed.
    F32,
    /// Rounded to nearest even: half the memory, half the reads.
    Bf16,
}

impl KvDtype {
    /// Lines of a pair.
    pub(super) const fn lines(self) -> usize {
        match self {
            Self::F32 => F32::LINES,
            Self::Bf16 => Bf16::LINES,
        }
    }

    /// Writes one value of a pair: `second` chooses the vector, `lane` the lane.
    #[inline(always)]
    pub(super) fn put(self, pair: &mut [Line], second: usize, lane: usize, value: f32) {
        match self {
            Self::F32 => pair[second].0[lane] = value.to_bits() as i32,
            Self::Bf16 => {
                let word = &mut pair[0].0[lane];
                let shift = 16 * second as u32;
                *word = (*word & !(0xffff << shift)) | ((f32_to_bf16(value) as i32) << shift);
            }
        }
    }
}

/// [`KvDtype`] as a type.
pub(super) trait Stored: Copy + Send + Sync {
    /// Lines of a pair.
    const LINES: usize;

    /// Both vectors of a pair of [`LINES`](Self::LINES) lines.
    fn pair<S: Simd>(s: S, lines: &[Line]) -> [S::F; 2];
}

/// Stored as f32.
#[derive(Clone, Copy)]
pub(super) struct F32;

impl Stored for F32 {
    const LINES: usize = 2;

    #[inline(always)]
    fn pair<S: Simd>(s: S, lines: &[Line]) -> [S::F; 2] {
        [s.of_bits(s.load_i(&lines[0].0)), s.of_bits(s.load_i(&lines[1].0))]
    }
}

/// Stored as bf16.
#[derive(Clone, Copy)]
pub(super) struct Bf16;

impl Stored for Bf16 {
    const LINES: usize = 1;

    #[inline(always)]
    fn pair<S: Simd>(s: S, lines: &[Line]) -> [S::F; 2] {
        let both = s.load_i(&lines[0].0);
        [s.of_bits(s.shl_i::<16>(both)), s.of_bits(s.and_i(both, s.splat_i(0xffff_0000_u32 as i32)))]
    }
}
