//! AVX2: codes widened to 16 bit, `vpmaddwd`.

#[allow(clippy::wildcard_imports)]
use std::arch::x86_64::*;

use super::{Dot, pairs};
use crate::linear::activations::Step;
use crate::linear::codes::E2M1_BIASED;
use crate::simd::{Avx2, Simd};

/// 32 bytes of `p` from `at` on.
///
/// # Safety
/// The machine has AVX2, and `at + 32 <= N`.
#[inline(always)]
unsafe fn load<const N: usize>(p: &[u8; N], at: usize) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_loadu_si256(p.as_ptr().add(at).cast()) }
}

/// Pairs of a step from nibbles.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn nibbles(v: __m256i) -> [__m256i; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let mask = _mm256_set1_epi16(15);
        [
            _mm256_and_si256(v, mask),
            _mm256_and_si256(_mm256_srli_epi16::<8>(v), mask),
            _mm256_and_si256(_mm256_srli_epi16::<4>(v), mask),
            _mm256_srli_epi16::<12>(v),
        ]
    }
}

/// Pairs of a step from E2M1 codes.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn e2m1(v: __m256i) -> [__m256i; 4] {
    // SAFETY: the caller's promise; the table has 16 bytes.
    unsafe {
        let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(E2M1_BIASED.as_ptr().cast()));
        let (low, mask) = (v, _mm256_set1_epi8(15));
        let high = _mm256_srli_epi16::<4>(v);
        bytes(
            _mm256_shuffle_epi8(table, _mm256_and_si256(low, mask)),
            _mm256_shuffle_epi8(table, _mm256_and_si256(high, mask)),
        )
    }
}

/// Pairs of a step from bytes: inputs 0 to 3 and 4 to 7.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn bytes(low: __m256i, high: __m256i) -> [__m256i; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let byte = _mm256_set1_epi16(255);
        [
            _mm256_and_si256(low, byte),
            _mm256_srli_epi16::<8>(low),
            _mm256_and_si256(high, byte),
            _mm256_srli_epi16::<8>(high),
        ]
    }
}

impl Dot for Avx2 {
    type Acc = [__m256i; 2];
    /// Per half of the outputs, the four pairs of a [`Step`].
    type Unpacked = [[__m256i; 4]; 2];

    #[inline(always)]
    fn zero(self) -> Self::Acc {
        self.splat_i(0)
    }
    #[inline(always)]
    fn arrange(self, x: Self::I) -> [Step; 2] {
        pairs(self, x)
    }
    #[inline(always)]
    fn unpack_nibbles(self, p: &[u8; 64]) -> Self::Unpacked {
        // SAFETY: the token proves the features; `p` has 64 bytes.
        unsafe { [nibbles(load(p, 0)), nibbles(load(p, 32))] }
    }
    #[inline(always)]
    fn unpack_e2m1(self, p: &[u8; 64]) -> Self::Unpacked {
        // SAFETY: the token proves the features; `p` has 64 bytes.
        unsafe { [e2m1(load(p, 0)), e2m1(load(p, 32))] }
    }
    #[inline(always)]
    fn unpack_bytes(self, p: &[u8; 128]) -> Self::Unpacked {
        // SAFETY: the token proves the features; `p` has 128 bytes.
        unsafe { [bytes(load(p, 0), load(p, 64)), bytes(load(p, 32), load(p, 96))] }
    }
    #[inline(always)]
    fn dot<const N: usize>(self, acc: &mut [Self::Acc; N], codes: &[Self::Unpacked; N], x: &Step) {
        for (t, &x) in x.iter().enumerate() {
            for (acc, codes) in acc.iter_mut().zip(codes) {
                // SAFETY: the token proves the features.
                unsafe {
                    let x = _mm256_set1_epi32(x as i32);
                    acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(codes[0][t], x));
                    acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(codes[1][t], x));
                }
            }
        }
    }
    #[inline(always)]
    fn total(self, acc: Self::Acc) -> Self::I {
        acc
    }
}
