//! AVX2: codes widened to 16 bit, `vpmaddwd`; a register is half a block.

#[allow(clippy::wildcard_imports)]
use std::arch::x86_64::*;

use super::{BYTE, Dot, E2M1, pairs};
use crate::linear::activations::Step;
use crate::linear::codes::E2M1_BIASED;
use crate::simd::Avx2;

/// Pair `t` of a step ([`pairs`]) of 8 outputs, 16 bits each. Called pair by pair, so that few are in registers at a time.
///
/// # Safety
/// The machine has AVX2, and `at` is the start of half a step of such codes.
#[inline(always)]
unsafe fn pair<const CODES: u8>(at: *const u8, t: usize) -> __m256i {
    // SAFETY: the caller's promise: 32 bytes at `at`, for bytes 32 more behind the block's other half; the table has 16.
    unsafe {
        let byte = _mm256_set1_epi16(255);
        let load = |at: *const u8| _mm256_loadu_si256(at.cast());
        match CODES {
            BYTE => {
                let codes = load(at.add(64 * (t / 2)));
                if t.is_multiple_of(2) {
                    _mm256_and_si256(codes, byte)
                } else {
                    _mm256_srli_epi16::<8>(codes)
                }
            }
            E2M1 => {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(E2M1_BIASED.as_ptr().cast()));
                let nibbles = load(at);
                let nibbles = if t < 2 { nibbles } else { _mm256_srli_epi16::<4>(nibbles) };
                let codes = _mm256_shuffle_epi8(table, _mm256_and_si256(nibbles, _mm256_set1_epi8(15)));
                if t.is_multiple_of(2) {
                    _mm256_and_si256(codes, byte)
                } else {
                    _mm256_srli_epi16::<8>(codes)
                }
            }
            _ => {
                let (codes, mask) = (load(at), _mm256_set1_epi16(15));
                match t {
                    0 => _mm256_and_si256(codes, mask),
                    1 => _mm256_and_si256(_mm256_srli_epi16::<8>(codes), mask),
                    2 => _mm256_and_si256(_mm256_srli_epi16::<4>(codes), mask),
                    _ => _mm256_srli_epi16::<12>(codes),
                }
            }
        }
    }
}

impl Dot for Avx2 {
    type Acc = __m256i;

    #[inline(always)]
    fn zero(self) -> __m256i {
        // SAFETY: the token proves the features.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    fn arrange(self, x: Self::I) -> [Step; 2] {
        pairs(self, x)
    }
    #[inline(always)]
    unsafe fn dots<const CODES: u8, const M: usize, const C: usize>(
        self,
        acc: &mut [[__m256i; C]; M],
        at: [*const u8; C],
        x: [&Step; M],
    ) {
        for t in 0..4 {
            // SAFETY: the token proves the features; the caller's promise.
            unsafe {
                // Not `array::from_fn` or `map`: they may stay calls.
                let mut codes = [pair::<CODES>(at[0], t); C];
                for c in 1..C {
                    codes[c] = pair::<CODES>(at[c], t);
                }
                for m in 0..M {
                    let x = _mm256_set1_epi32(x[m][t] as i32);
                    for c in 0..C {
                        acc[m][c] = _mm256_add_epi32(acc[m][c], _mm256_madd_epi16(codes[c], x));
                    }
                }
            }
        }
    }
    #[inline(always)]
    fn total(self, acc: __m256i) -> __m256 {
        // SAFETY: the token proves the features.
        unsafe { _mm256_cvtepi32_ps(acc) }
    }
}
