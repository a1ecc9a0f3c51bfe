//! AVX-512 VNNI: bytes against two planes of signed bytes; `x = [hi 0..4, hi 4..8, lo 0..4, lo 4..8]`.

#[allow(clippy::wildcard_imports)]
use std::arch::x86_64::*;

use super::Dot;
use crate::linear::activations::Step;
use crate::linear::codes::E2M1_BIASED;
use crate::simd::{Avx512, Simd};

impl Dot for Avx512 {
    /// Sums over the high plane and over the low plane.
    type Acc = [__m512i; 2];
    type Unpacked = [__m512i; 2];

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
    fn unpack_nibbles(self, p: &[u8; 64]) -> Self::Unpacked {
        // SAFETY: the token proves the features; `p` has 64 bytes.
        unsafe {
            let (v, mask) = (_mm512_loadu_si512(p.as_ptr().cast()), _mm512_set1_epi8(15));
            [_mm512_and_si512(v, mask), _mm512_and_si512(_mm512_srli_epi16::<4>(v), mask)]
        }
    }
    #[inline(always)]
    fn unpack_e2m1(self, p: &[u8; 64]) -> Self::Unpacked {
        let [low, high] = self.unpack_nibbles(p);
        // SAFETY: the token proves the features; the table has 16 bytes.
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(E2M1_BIASED.as_ptr().cast()));
            [_mm512_shuffle_epi8(table, low), _mm512_shuffle_epi8(table, high)]
        }
    }
    #[inline(always)]
    fn unpack_bytes(self, p: &[u8; 128]) -> Self::Unpacked {
        // SAFETY: the token proves the features; `p` has 128 bytes.
        unsafe { [_mm512_loadu_si512(p.as_ptr().cast()), _mm512_loadu_si512(p.as_ptr().add(64).cast())] }
    }
    #[inline(always)]
    fn dot<const N: usize>(self, acc: &mut [Self::Acc; N], codes: &[Self::Unpacked; N], x: &Step) {
        for (t, &x) in x.iter().enumerate() {
            let x = self.splat_i(x as i32);
            for (acc, codes) in acc.iter_mut().zip(codes) {
                acc[t / 2] = self.dot4(acc[t / 2], codes[t % 2], x);
            }
        }
    }
    #[inline(always)]
    fn total(self, acc: Self::Acc) -> __m512i {
        self.add_i(self.shl_i::<8>(acc[0]), acc[1])
    }
}
