//! AVX2 and FMA: two registers a vector, `[lanes 0..8, lanes 8..16]`.
// SAFETY (whole file): an `Avx2` exists only where `Avx2::new` has seen every feature the intrinsics below
// need; pointers come from references to arrays of the size that is read or written (unaligned forms).
#![allow(clippy::undocumented_unsafe_blocks, clippy::wildcard_imports)]

use std::arch::x86_64::*;

use super::{LANES, Simd, sealed::Sealed};

/// Token of [`crate::Isa::Avx2`].
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// The token, if the machine has AVX2, FMA and F16C.
    #[inline]
    pub fn new() -> Option<Avx2> {
        let ok = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        ok.then_some(Avx2(()))
    }
}

impl Sealed for Avx2 {}

#[target_feature(enable = "avx2,fma,f16c")]
fn enter<R>(s: Avx2, f: impl FnOnce(Avx2) -> R) -> R {
    f(s)
}

type F = [__m256; 2];
type I = [__m256i; 2];

/// Methods that apply one expression of intrinsics to both halves.
macro_rules! halves {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $body:expr;)*) => {
        $(#[inline(always)]
        fn $name(self, $($arg: $ty),*) -> $out {
            unsafe { [{ $(let $arg = $arg[0];)* $body }, { $(let $arg = $arg[1];)* $body }] }
        })*
    };
}

/// 8 bf16 results in the high halves of `bits`' lanes, packed by [`Simd::store_bf16`] for Avx2.
#[inline(always)]
unsafe fn round_bf16(v: __m256) -> __m256i {
    unsafe {
        let bits = _mm256_castps_si256(v);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
        _mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0_0000), nan))
    }
}

impl Simd for Avx2 {
    type F = F;
    type I = I;
    type M = F;
    const REGISTERS: usize = 8;

    #[inline(always)]
    fn vectorize<R>(self, f: impl FnOnce(Self) -> R) -> R {
        unsafe { enter(self, f) }
    }

    halves! {
        add(a: F, b: F) -> F = _mm256_add_ps(a, b);
        sub(a: F, b: F) -> F = _mm256_sub_ps(a, b);
        mul(a: F, b: F) -> F = _mm256_mul_ps(a, b);
        div(a: F, b: F) -> F = _mm256_div_ps(a, b);
        fma(a: F, b: F, c: F) -> F = _mm256_fmadd_ps(a, b, c);
        sqrt(a: F) -> F = _mm256_sqrt_ps(a);
        max(a: F, b: F) -> F = _mm256_max_ps(a, b);
        min(a: F, b: F) -> F = _mm256_min_ps(a, b);
        abs(a: F) -> F = _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
        neg(a: F) -> F = _mm256_xor_ps(_mm256_set1_ps(-0.0), a);
        lt(a: F, b: F) -> F = _mm256_cmp_ps::<_CMP_LT_OQ>(a, b);
        le(a: F, b: F) -> F = _mm256_cmp_ps::<_CMP_LE_OQ>(a, b);
        eq(a: F, b: F) -> F = _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b);
        is_nan(a: F) -> F = _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a);
        select(m: F, a: F, b: F) -> F = _mm256_blendv_ps(b, a, m);
        to_i32(a: F) -> I = _mm256_cvtps_epi32(a);
        to_f32(a: I) -> F = _mm256_cvtepi32_ps(a);
        bits(a: F) -> I = _mm256_castps_si256(a);
        of_bits(a: I) -> F = _mm256_castsi256_ps(a);
        add_i(a: I, b: I) -> I = _mm256_add_epi32(a, b);
        sub_i(a: I, b: I) -> I = _mm256_sub_epi32(a, b);
        max_i(a: I, b: I) -> I = _mm256_max_epi32(a, b);
        and_i(a: I, b: I) -> I = _mm256_and_si256(a, b);
        or_i(a: I, b: I) -> I = _mm256_or_si256(a, b);
        // Bytes 0, 2 and 1, 3 widened to 16 bit: vpmaddwd cannot saturate, vpmaddubsw could.
        dot4(acc: I, u: I, i: I) -> I = {
            let even = _mm256_madd_epi16(
                _mm256_and_si256(u, _mm256_set1_epi16(255)),
                _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(i)),
            );
            let odd = _mm256_madd_epi16(_mm256_srli_epi16::<8>(u), _mm256_srai_epi16::<8>(i));
            _mm256_add_epi32(acc, _mm256_add_epi32(even, odd))
        };
    }

    #[inline(always)]
    fn splat(self, v: f32) -> F {
        unsafe { [_mm256_set1_ps(v); 2] }
    }
    #[inline(always)]
    fn load(self, p: &[f32; LANES]) -> F {
        unsafe { [_mm256_loadu_ps(p.as_ptr()), _mm256_loadu_ps(p.as_ptr().add(8))] }
    }
    #[inline(always)]
    fn store(self, p: &mut [f32; LANES], v: F) {
        unsafe {
            _mm256_storeu_ps(p.as_mut_ptr(), v[0]);
            _mm256_storeu_ps(p.as_mut_ptr().add(8), v[1]);
        }
    }
    #[inline(always)]
    fn load_bf16(self, p: &[u16; LANES]) -> F {
        unsafe {
            let [a, b] = [_mm_loadu_si128(p.as_ptr().cast()), _mm_loadu_si128(p.as_ptr().add(8).cast())];
            let [a, b] = [_mm256_cvtepu16_epi32(a), _mm256_cvtepu16_epi32(b)];
            self.of_bits(self.shl_i::<16>([a, b]))
        }
    }
    #[inline(always)]
    fn load_f16(self, p: &[u16; LANES]) -> F {
        unsafe {
            let [a, b] = [_mm_loadu_si128(p.as_ptr().cast()), _mm_loadu_si128(p.as_ptr().add(8).cast())];
            [_mm256_cvtph_ps(a), _mm256_cvtph_ps(b)]
        }
    }
    #[inline(always)]
    fn store_bf16(self, p: &mut [u16; LANES], v: F) {
        unsafe {
            // packus works within 128-bit halves: put the quarters in order.
            let packed = _mm256_packus_epi32(round_bf16(v[0]), round_bf16(v[1]));
            _mm256_storeu_si256(p.as_mut_ptr().cast(), _mm256_permute4x64_epi64::<0b11_01_10_00>(packed));
        }
    }
    #[inline(always)]
    fn first(self, n: usize) -> F {
        let lanes = self.load_i(&std::array::from_fn(|lane| if lane < n { -1 } else { 0 }));
        self.of_bits(lanes)
    }
    #[inline(always)]
    fn any(self, m: F) -> bool {
        unsafe { _mm256_movemask_ps(_mm256_or_ps(m[0], m[1])) != 0 }
    }
    #[inline(always)]
    fn splat_i(self, v: i32) -> I {
        unsafe { [_mm256_set1_epi32(v); 2] }
    }
    #[inline(always)]
    fn load_i(self, p: &[i32; LANES]) -> I {
        unsafe { [_mm256_loadu_si256(p.as_ptr().cast()), _mm256_loadu_si256(p.as_ptr().add(8).cast())] }
    }
    #[inline(always)]
    fn store_i(self, p: &mut [i32; LANES], v: I) {
        unsafe {
            _mm256_storeu_si256(p.as_mut_ptr().cast(), v[0]);
            _mm256_storeu_si256(p.as_mut_ptr().add(8).cast(), v[1]);
        }
    }
    #[inline(always)]
    fn shl_i<const N: u32>(self, a: I) -> I {
        unsafe {
            let n = _mm_cvtsi32_si128(N as i32);
            [_mm256_sll_epi32(a[0], n), _mm256_sll_epi32(a[1], n)]
        }
    }
    #[inline(always)]
    fn shr_i<const N: u32>(self, a: I) -> I {
        unsafe {
            let n = _mm_cvtsi32_si128(N as i32);
            [_mm256_srl_epi32(a[0], n), _mm256_srl_epi32(a[1], n)]
        }
    }
    #[inline(always)]
    fn sar_i<const N: u32>(self, a: I) -> I {
        unsafe {
            let n = _mm_cvtsi32_si128(N as i32);
            [_mm256_sra_epi32(a[0], n), _mm256_sra_epi32(a[1], n)]
        }
    }
    #[inline(always)]
    fn store_i8(self, p: &mut [i8; LANES], v: I) {
        let mut lanes = [0; LANES];
        self.store_i(&mut lanes, v);
        *p = lanes.map(|v| v as i8);
    }
    #[inline(always)]
    fn store_i16(self, p: &mut [i16; LANES], v: I) {
        let mut lanes = [0; LANES];
        self.store_i(&mut lanes, v);
        *p = lanes.map(|v| v as i16);
    }
    #[inline(always)]
    fn reduce_add(self, a: F) -> f32 {
        unsafe {
            let a = _mm256_add_ps(a[0], a[1]);
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
        }
    }
    #[inline(always)]
    fn reduce_max(self, a: F) -> f32 {
        unsafe {
            let a = _mm256_max_ps(a[0], a[1]);
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
        }
    }
    #[inline(always)]
    fn reduce_add_i(self, a: I) -> i32 {
        let mut lanes = [0; LANES];
        self.store_i(&mut lanes, a);
        lanes.iter().fold(0, |sum, &v| sum.wrapping_add(v))
    }
    #[inline(always)]
    fn reduce_max_i(self, a: I) -> i32 {
        let mut lanes = [0; LANES];
        self.store_i(&mut lanes, a);
        lanes.iter().fold(i32::MIN, |max, &v| max.max(v))
    }
}
