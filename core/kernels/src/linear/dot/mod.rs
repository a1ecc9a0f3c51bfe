//! Integer dot products of one step: 8 inputs, 16 outputs, exact on every instruction set.
//!
//! `|sum| <= 128 inputs * 255 * 32639 < 2^31` for the largest group, so 32-bit sums never wrap.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use crate::simd::{LANES, Simd};

use super::activations::Step;

/// Exact products of unsigned weight codes with 16-bit activations.
pub(super) trait Dot: Simd {
    /// Partial sums of 16 outputs.
    type Acc: Copy;
    /// Codes of one step, unpacked.
    type Unpacked: Copy;

    /// Empty sums.
    fn zero(self) -> Self::Acc;
    /// Two steps of activations from 16 integers of at most 16 signed bits, in this instruction set's order.
    fn arrange(self, x: Self::I) -> [Step; 2];
    /// A step of unsigned nibbles.
    fn unpack_nibbles(self, p: &[u8; 64]) -> Self::Unpacked;
    /// A step of E2M1 codes, as [`E2M1_BIASED`](super::codes::E2M1_BIASED) integers.
    fn unpack_e2m1(self, p: &[u8; 64]) -> Self::Unpacked;
    /// A step of unsigned bytes.
    fn unpack_bytes(self, p: &[u8; 128]) -> Self::Unpacked;
    /// Adds the products of one step of one row with `N` blocks. The order inside (an activation, then every
    /// block) keeps few broadcast activations in registers.
    fn dot<const N: usize>(self, acc: &mut [Self::Acc; N], codes: &[Self::Unpacked; N], x: &Step);
    /// The sums.
    fn total(self, acc: Self::Acc) -> Self::I;
}

/// Activations for 16-bit multiplies: pairs `(0, 2) (1, 3) (4, 6) (5, 7)`, as masks and shifts unpack the
/// codes.
#[inline(always)]
fn pairs<S: Simd>(s: S, x: S::I) -> [Step; 2] {
    let mut lanes = [0; LANES];
    s.store_i(&mut lanes, x);
    let pair = |at: usize| lanes[at] as u32 & 0xffff | (lanes[at + 2] as u32) << 16;
    [[pair(0), pair(1), pair(4), pair(5)], [pair(8), pair(9), pair(12), pair(13)]]
}
