//! Integer dot products of one step: 8 inputs, a register of outputs, exact on every instruction set.
//!
//! `|sum| <= 128 inputs * 255 * 32639 < 2^31` for the largest group, so 32-bit sums never wrap.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use crate::simd::{LANES, Simd};

use super::activations::Step;
use super::register::Register;

/// [`Codes`](super::codes::Codes) as numbers, for kernels compiled for each.
pub(super) const NIBBLE: u8 = 0;
/// Unsigned bytes.
pub(super) const BYTE: u8 = 1;
/// E2M1 codes, which stand for the integers [`E2M1_BIASED`](super::codes::E2M1_BIASED).
pub(super) const E2M1: u8 = 2;

/// Exact products of unsigned weight codes with 16-bit activations.
pub(super) trait Dot: Register {
    /// Partial sums of a register of outputs.
    type Acc: Copy;

    /// Empty sums.
    fn zero(self) -> Self::Acc;
    /// Two steps of activations from 16 integers of at most 16 signed bits, in this instruction set's order.
    fn arrange(self, x: Self::I) -> [Step; 2];
    /// Adds the products of one step: `M` rows with the `C` registers of outputs whose codes begin at `at`.
    ///
    /// # Safety
    /// Each of `at` is the start of a register's codes within a step of the packed layout.
    unsafe fn dots<const CODES: u8, const M: usize, const C: usize>(
        self,
        acc: &mut [[Self::Acc; C]; M],
        at: [*const u8; C],
        x: [&Step; M],
    );
    /// The sums as floats, rounded once.
    fn total(self, acc: Self::Acc) -> Self::R;
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
