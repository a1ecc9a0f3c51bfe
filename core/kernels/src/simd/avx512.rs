//! AVX-512: one register a vector.
// SAFETY (whole file): an `Avx512` exists only where `Avx512::new` has seen every feature the intrinsics
// below need; pointers come from references to arrays of the size that is read or written (unaligned forms).
#![allow(clippy::undocumented_unsafe_blocks, clippy::wildcard_imports)]

use std::arch::x86_64::*;

use super::{LANES, Simd, sealed::Sealed};

/// Token of [`crate::Isa::Avx512`].
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx512 {
    /// The token, if the machine has F, BW, VL, DQ, VNNI, and what AVX2 code needs.
    #[inline]
    pub fn new() -> Option<Avx512> {
        let ok = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vnni")
            && super::Avx2::new().is_some();
        ok.then_some(Avx512(()))
    }
}

impl Sealed for Avx512 {}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn enter<R>(s: Avx512, f: impl FnOnce(Avx512) -> R) -> R {
    f(s)
}

/// Methods that are one expression of intrinsics.
macro_rules! ops {
    ($($name:ident($($arg:ident: $ty:ty),*) $(-> $out:ty)? = $body:expr;)*) => {
        $(#[inline(always)]
        fn $name(self, $($arg: $ty),*) $(-> $out)? {
            unsafe { $body }
        })*
    };
}

impl Simd for Avx512 {
    type F = __m512;
    type I = __m512i;
    type M = __mmask16;
    const REGISTERS: usize = 32;

    #[inline(always)]
    fn vectorize<R>(self, f: impl FnOnce(Self) -> R) -> R {
        unsafe { enter(self, f) }
    }

    ops! {
        splat(v: f32) -> __m512 = _mm512_set1_ps(v);
        load(p: &[f32; LANES]) -> __m512 = _mm512_loadu_ps(p.as_ptr());
        store(p: &mut [f32; LANES], v: __m512) = _mm512_storeu_ps(p.as_mut_ptr(), v);
        load_bf16(p: &[u16; LANES]) -> __m512 = {
            let half = _mm256_loadu_si256(p.as_ptr().cast());
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)))
        };
        load_f16(p: &[u16; LANES]) -> __m512 = _mm512_cvtph_ps(_mm256_loadu_si256(p.as_ptr().cast()));
        store_bf16(p: &mut [u16; LANES], v: __m512) = {
            let bits = _mm512_castps_si512(v);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
            let rounded = _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7fc0_0000));
            let half = _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded));
            _mm256_storeu_si256(p.as_mut_ptr().cast(), half);
        };
        add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        sqrt(a: __m512) -> __m512 = _mm512_sqrt_ps(a);
        max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        abs(a: __m512) -> __m512 = _mm512_andnot_ps(_mm512_set1_ps(-0.0), a);
        neg(a: __m512) -> __m512 = _mm512_xor_ps(_mm512_set1_ps(-0.0), a);
        lt(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
        le(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b);
        eq(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b);
        is_nan(a: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a);
        select(m: __mmask16, a: __m512, b: __m512) -> __m512 = _mm512_mask_blend_ps(m, b, a);
        to_i32(a: __m512) -> __m512i = _mm512_cvtps_epi32(a);
        to_f32(a: __m512i) -> __m512 = _mm512_cvtepi32_ps(a);
        bits(a: __m512) -> __m512i = _mm512_castps_si512(a);
        of_bits(a: __m512i) -> __m512 = _mm512_castsi512_ps(a);
        splat_i(v: i32) -> __m512i = _mm512_set1_epi32(v);
        load_i(p: &[i32; LANES]) -> __m512i = _mm512_loadu_si512(p.as_ptr().cast());
        store_i(p: &mut [i32; LANES], v: __m512i) = _mm512_storeu_si512(p.as_mut_ptr().cast(), v);
        add_i(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        sub_i(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi32(a, b);
        max_i(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi32(a, b);
        and_i(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        or_i(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);
        dot4(acc: __m512i, u: __m512i, i: __m512i) -> __m512i = _mm512_dpbusd_epi32(acc, u, i);
        store_i8(p: &mut [i8; LANES], v: __m512i) =
            _mm_storeu_si128(p.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(v));
        store_i16(p: &mut [i16; LANES], v: __m512i) =
            _mm256_storeu_si256(p.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(v));
        reduce_add_i(a: __m512i) -> i32 = _mm512_reduce_add_epi32(a);
        reduce_max_i(a: __m512i) -> i32 = _mm512_reduce_max_epi32(a);
        reduce_add(a: __m512) -> f32 = {
            let a = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
        };
        reduce_max(a: __m512) -> f32 = {
            let a = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
        };
    }

    #[inline(always)]
    fn first(self, n: usize) -> __mmask16 {
        if n >= LANES { u16::MAX } else { (1 << n) - 1 }
    }
    #[inline(always)]
    fn any(self, m: __mmask16) -> bool {
        m != 0
    }
    #[inline(always)]
    fn shl_i<const N: u32>(self, a: __m512i) -> __m512i {
        unsafe { _mm512_slli_epi32::<N>(a) }
    }
    #[inline(always)]
    fn shr_i<const N: u32>(self, a: __m512i) -> __m512i {
        unsafe { _mm512_srli_epi32::<N>(a) }
    }
    #[inline(always)]
    fn sar_i<const N: u32>(self, a: __m512i) -> __m512i {
        unsafe { _mm512_srai_epi32::<N>(a) }
    }
}
