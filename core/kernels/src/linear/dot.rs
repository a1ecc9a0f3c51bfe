//! Integer dot products of one step: 8 inputs, 16 outputs, exact on every instruction set.
//!
//! `|sum| <= 128 inputs * 255 * 32639 < 2^31` for the largest group, so 32-bit sums never wrap.

use crate::simd::{LANES, Portable, Simd};

use super::activations::Step;
use super::codes::{Codes, E2M1_BIASED, STEP};

#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

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
    /// A step of E2M1 codes, as [`E2M1_BIASED`] integers.
    fn unpack_e2m1(self, p: &[u8; 64]) -> Self::Unpacked;
    /// A step of unsigned bytes.
    fn unpack_bytes(self, p: &[u8; 128]) -> Self::Unpacked;
    /// Adds the products of one step.
    fn dot(self, acc: Self::Acc, codes: Self::Unpacked, x: &Step) -> Self::Acc;
    /// The sums.
    fn total(self, acc: Self::Acc) -> Self::I;
}

/// AVX-512 VNNI: bytes against two planes of signed bytes; `x = [hi 0..4, hi 4..8, lo 0..4, lo 4..8]`.
#[cfg(target_arch = "x86_64")]
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
    fn dot(self, acc: Self::Acc, codes: Self::Unpacked, x: &Step) -> Self::Acc {
        let x = x.map(|v| self.splat_i(v as i32));
        [
            self.dot4(self.dot4(acc[0], codes[0], x[0]), codes[1], x[1]),
            self.dot4(self.dot4(acc[1], codes[0], x[2]), codes[1], x[3]),
        ]
    }
    #[inline(always)]
    fn total(self, acc: Self::Acc) -> __m512i {
        self.add_i(self.shl_i::<8>(acc[0]), acc[1])
    }
}

/// Activations for 16-bit multiplies: pairs `(0, 2) (1, 3) (4, 6) (5, 7)`, as masks and shifts unpack the codes.
#[inline(always)]
fn pairs<S: Simd>(s: S, x: S::I) -> [Step; 2] {
    let mut lanes = [0; LANES];
    s.store_i(&mut lanes, x);
    let pair = |at: usize| lanes[at] as u32 & 0xffff | (lanes[at + 2] as u32) << 16;
    [[pair(0), pair(1), pair(4), pair(5)], [pair(8), pair(9), pair(12), pair(13)]]
}

/// AVX2: codes widened to 16 bit, `vpmaddwd`.
#[cfg(target_arch = "x86_64")]
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
        unsafe {
            let mask = _mm256_set1_epi16(15);
            [0, 32].map(
                #[inline(always)]
                |at| {
                    let v = _mm256_loadu_si256(p.as_ptr().add(at).cast());
                    [
                        _mm256_and_si256(v, mask),
                        _mm256_and_si256(_mm256_srli_epi16::<8>(v), mask),
                        _mm256_and_si256(_mm256_srli_epi16::<4>(v), mask),
                        _mm256_srli_epi16::<12>(v),
                    ]
                },
            )
        }
    }
    #[inline(always)]
    fn unpack_e2m1(self, p: &[u8; 64]) -> Self::Unpacked {
        // SAFETY: the token proves the features; `p` has 64 bytes, the table 16.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(E2M1_BIASED.as_ptr().cast()));
            let (nibble, byte) = (_mm256_set1_epi8(15), _mm256_set1_epi16(255));
            [0, 32].map(
                #[inline(always)]
                |at| {
                    let v = _mm256_loadu_si256(p.as_ptr().add(at).cast());
                    let low = _mm256_shuffle_epi8(table, _mm256_and_si256(v, nibble));
                    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(v), nibble);
                    let high = _mm256_shuffle_epi8(table, high);
                    [
                        _mm256_and_si256(low, byte),
                        _mm256_srli_epi16::<8>(low),
                        _mm256_and_si256(high, byte),
                        _mm256_srli_epi16::<8>(high),
                    ]
                },
            )
        }
    }
    #[inline(always)]
    fn unpack_bytes(self, p: &[u8; 128]) -> Self::Unpacked {
        // SAFETY: the token proves the features; `p` has 128 bytes.
        unsafe {
            let byte = _mm256_set1_epi16(255);
            [0, 32].map(
                #[inline(always)]
                |at| {
                    let low = _mm256_loadu_si256(p.as_ptr().add(at).cast());
                    let high = _mm256_loadu_si256(p.as_ptr().add(64 + at).cast());
                    [
                        _mm256_and_si256(low, byte),
                        _mm256_srli_epi16::<8>(low),
                        _mm256_and_si256(high, byte),
                        _mm256_srli_epi16::<8>(high),
                    ]
                },
            )
        }
    }
    #[inline(always)]
    fn dot(self, mut acc: Self::Acc, codes: Self::Unpacked, x: &Step) -> Self::Acc {
        for t in 0..4 {
            // SAFETY: the token proves the features.
            unsafe {
                let x = _mm256_set1_epi32(x[t] as i32);
                acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(codes[0][t], x));
                acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(codes[1][t], x));
            }
        }
        acc
    }
    #[inline(always)]
    fn total(self, acc: Self::Acc) -> Self::I {
        acc
    }
}

/// One output after the other, from the order of [`pairs`].
impl Dot for Portable {
    type Acc = [i32; LANES];
    type Unpacked = [[u8; STEP]; LANES];

    #[inline(always)]
    fn zero(self) -> Self::Acc {
        [0; LANES]
    }
    #[inline(always)]
    fn arrange(self, x: Self::I) -> [Step; 2] {
        pairs(self, x)
    }
    #[inline(always)]
    fn unpack_nibbles(self, p: &[u8; 64]) -> Self::Unpacked {
        std::array::from_fn(|lane| Codes::Nibble.get(p, lane))
    }
    #[inline(always)]
    fn unpack_e2m1(self, p: &[u8; 64]) -> Self::Unpacked {
        std::array::from_fn(|lane| Codes::E2m1.get(p, lane))
    }
    #[inline(always)]
    fn unpack_bytes(self, p: &[u8; 128]) -> Self::Unpacked {
        std::array::from_fn(|lane| Codes::Byte.get(p, lane))
    }
    #[inline(always)]
    fn dot(self, mut acc: Self::Acc, codes: Self::Unpacked, x: &Step) -> Self::Acc {
        for (acc, codes) in acc.iter_mut().zip(codes) {
            for (t, first) in [0, 1, 4, 5].into_iter().enumerate() {
                *acc += i32::from(codes[first]) * i32::from(x[t] as i16);
                *acc += i32::from(codes[first + 2]) * i32::from((x[t] >> 16) as i16);
            }
        }
        acc
    }
    #[inline(always)]
    fn total(self, acc: Self::Acc) -> Self::I {
        acc
    }
}
