//! One vector register of outputs: what a tile keeps of a block. A block of 16 outputs is one register on machines with long
//! vectors, and two on AVX2, whose 16 registers then hold the sums of twice as many rows.

use crate::simd::{LANES, Portable, Simd};

use super::format::FloatType;

/// Registers of consecutive outputs. Bits do not depend on how many make a block: lanes never meet.
pub(super) trait Register: Simd {
    /// [`WIDTH`](Register::WIDTH) floats.
    type R: Copy;
    /// Registers of a block.
    const PARTS: usize;
    /// Outputs of a register.
    const WIDTH: usize = LANES / Self::PARTS;

    /// `v` in every lane.
    fn repeat(self, v: f32) -> Self::R;
    /// Exact.
    fn plus(self, a: Self::R, b: Self::R) -> Self::R;
    /// Exact.
    fn times(self, a: Self::R, b: Self::R) -> Self::R;
    /// `a * b + c`, rounded once.
    fn plus_product(self, a: Self::R, b: Self::R, c: Self::R) -> Self::R;
    /// The floats at `at`, exact.
    ///
    /// # Safety
    /// `WIDTH` floats of that type lie there.
    unsafe fn read(self, dtype: FloatType, at: *const u8) -> Self::R;
    /// The upper and the lower bf16 of `WIDTH` words: the second and the first of a pair of inputs.
    ///
    /// # Safety
    /// `WIDTH` words of 32 bits lie at `at`.
    unsafe fn read_bf16_pair(self, at: *const u8) -> [Self::R; 2];
    /// Writes the first `out.len()` lanes, at most `WIDTH`.
    fn write(self, out: &mut [f32], v: Self::R);
}

/// A register is a block.
macro_rules! whole_block {
    ($simd:ty) => {
        impl Register for $simd {
            type R = <$simd as Simd>::F;
            const PARTS: usize = 1;

            #[inline(always)]
            fn repeat(self, v: f32) -> Self::R {
                self.splat(v)
            }
            #[inline(always)]
            fn plus(self, a: Self::R, b: Self::R) -> Self::R {
                self.add(a, b)
            }
            #[inline(always)]
            fn times(self, a: Self::R, b: Self::R) -> Self::R {
                self.mul(a, b)
            }
            #[inline(always)]
            fn plus_product(self, a: Self::R, b: Self::R, c: Self::R) -> Self::R {
                self.fma(a, b, c)
            }
            #[inline(always)]
            unsafe fn read(self, dtype: FloatType, at: *const u8) -> Self::R {
                // SAFETY: the caller's promise; packed data is aligned to its items.
                unsafe {
                    match dtype {
                        FloatType::Bf16 => self.load_bf16(&*at.cast()),
                        FloatType::F16 => self.load_f16(&*at.cast()),
                        FloatType::F32 => self.load(&*at.cast()),
                    }
                }
            }
            #[inline(always)]
            unsafe fn read_bf16_pair(self, at: *const u8) -> [Self::R; 2] {
                // SAFETY: the caller's promise; packed data is aligned to its words.
                let words = unsafe { self.load_i(&*at.cast()) };
                let upper = self.and_i(words, self.splat_i(0xffff_0000_u32 as i32));
                [self.of_bits(self.shl_i::<16>(words)), self.of_bits(upper)]
            }
            #[inline(always)]
            fn write(self, out: &mut [f32], v: Self::R) {
                match <&mut [f32; LANES]>::try_from(&mut *out) {
                    Ok(full) => self.store(full, v),
                    Err(_) => self.store_partial(out, v),
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
whole_block!(crate::simd::Avx512);
whole_block!(Portable);

#[cfg(target_arch = "x86_64")]
mod half_block {
    #[allow(clippy::wildcard_imports)]
    use std::arch::x86_64::*;

    use super::{FloatType, Register};
    use crate::simd::Avx2;

    impl Register for Avx2 {
        type R = __m256;
        const PARTS: usize = 2;

        #[inline(always)]
        fn repeat(self, v: f32) -> __m256 {
            // SAFETY: the token proves the features.
            unsafe { _mm256_set1_ps(v) }
        }
        #[inline(always)]
        fn plus(self, a: __m256, b: __m256) -> __m256 {
            // SAFETY: the token proves the features.
            unsafe { _mm256_add_ps(a, b) }
        }
        #[inline(always)]
        fn times(self, a: __m256, b: __m256) -> __m256 {
            // SAFETY: the token proves the features.
            unsafe { _mm256_mul_ps(a, b) }
        }
        #[inline(always)]
        fn plus_product(self, a: __m256, b: __m256, c: __m256) -> __m256 {
            // SAFETY: the token proves the features.
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn read(self, dtype: FloatType, at: *const u8) -> __m256 {
            // SAFETY: the token proves the features; 8 floats lie at `at` (the caller's promise).
            unsafe {
                match dtype {
                    FloatType::Bf16 => {
                        let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()));
                        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
                    }
                    FloatType::F16 => _mm256_cvtph_ps(_mm_loadu_si128(at.cast())),
                    FloatType::F32 => _mm256_loadu_ps(at.cast()),
                }
            }
        }
        #[inline(always)]
        unsafe fn read_bf16_pair(self, at: *const u8) -> [__m256; 2] {
            // SAFETY: the token proves the features; 8 words lie at `at` (the caller's promise).
            unsafe {
                let words = _mm256_loadu_si256(at.cast());
                let upper = _mm256_and_si256(words, _mm256_set1_epi32(0xffff_0000_u32 as i32));
                [_mm256_castsi256_ps(_mm256_slli_epi32::<16>(words)), _mm256_castsi256_ps(upper)]
            }
        }
        #[inline(always)]
        fn write(self, out: &mut [f32], v: __m256) {
            // SAFETY: the token proves the features; both targets have 8 floats.
            unsafe {
                if let Ok(full) = <&mut [f32; 8]>::try_from(&mut *out) {
                    _mm256_storeu_ps(full.as_mut_ptr(), v);
                } else {
                    let mut lanes = [0.0; 8];
                    _mm256_storeu_ps(lanes.as_mut_ptr(), v);
                    out.copy_from_slice(&lanes[..out.len()]);
                }
            }
        }
    }
}
