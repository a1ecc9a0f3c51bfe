//! AVX-512 VNNI: bytes against two planes of signed bytes; `x = [hi 0..4, hi 4..8, lo 0..4, lo 4..8]`.

#[allow(clippy::wildcard_imports)]
use std::arch::x86_64::*;

use super::{BYTE, Dot, E2M1};
use crate::linear::activations::Step;
use crate::linear::codes::E2M1_BIASED;
use crate::simd::{Avx512, Simd};

/// Inputs 0 to 3 and 4 to 7 of a step, a byte each.
///
/// # Safety
/// The machine has AVX-512, and `at` is the start of a step of such codes.
#[inline(always)]
unsafe fn unpack<const CODES: u8>(at: *const u8) -> [__m512i; 2] {
    // SAFETY: the caller's promise: 64 bytes, 128 for bytes; the table has 16.
    unsafe {
        let codes = _mm512_loadu_si512(at.cast());
        if CODES == BYTE {
            return [codes, _mm512_loadu_si512(at.add(64).cast())];
        }
        let mask = _mm512_set1_epi8(15);
        let (low, high) =
            (_mm512_and_si512(codes, mask), _mm512_and_si512(_mm512_srli_epi16::<4>(codes), mask));
        if CODES == E2M1 {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(E2M1_BIASED.as_ptr().cast()));
            return [_mm512_shuffle_epi8(table, low), _mm512_shuffle_epi8(table, high)];
        }
        [low, high]
    }
}

impl Dot for Avx512 {
    /// Sums over the high plane and over the low plane.
    type Acc = [__m512i; 2];

    #[inline(always)]
    fn zero(self) -> Self::Acc {
        [self.splat_i(0); 2]
    }
    #[inline(always)]
    fn arrange(self, x: __m512i) -> [Step; 2] {
        let high = self.sar_i::<8>(self.add_i(x, self.splat_i(128)));
        let low = self.sub_i(x, self.shl_i::<8>(high));
        // SAFETY: the token proves the features; a `[Step; 2]` is 32 bytes, and any bits are valid.
        unsafe {
            let (high, low) = (_mm512_cvtepi32_epi8(high), _mm512_cvtepi32_epi8(low));
            let mut steps = [Step::default(); 2];
            _mm_storeu_si128(steps[0].as_mut_ptr().cast(), _mm_unpacklo_epi64(high, low));
            _mm_storeu_si128(steps[1].as_mut_ptr().cast(), _mm_unpackhi_epi64(high, low));
            steps
        }
    }
    #[inline(always)]
    unsafe fn dots<const CODES: u8, const M: usize, const C: usize>(
        self,
        acc: &mut [[Self::Acc; C]; M],
        at: [*const u8; C],
        x: [&Step; M],
    ) {
        // SAFETY: the token proves the features; the caller's promise.
        let codes = unsafe {
            // Not `array::from_fn` or `map`: they may stay calls, and intrinsics in them too.
            let mut codes = [unpack::<CODES>(at[0]); C];
            for c in 1..C {
                codes[c] = unpack::<CODES>(at[c]);
            }
            codes
        };
        for m in 0..M {
            // An activation, then every register of outputs: few broadcast activations are in registers at a time.
            for t in 0..4 {
                let x = self.splat_i(x[m][t] as i32);
                for c in 0..C {
                    acc[m][c][t / 2] = self.dot4(acc[m][c][t / 2], codes[c][t % 2], x);
                }
            }
        }
    }
    #[inline(always)]
    fn total(self, acc: Self::Acc) -> Self::F {
        self.to_f32(self.add_i(self.shl_i::<8>(acc[0]), acc[1]))
    }
}
