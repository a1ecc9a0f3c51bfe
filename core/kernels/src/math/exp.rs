//! The exponential.

use super::polynomial;
use crate::simd::Simd;

/// ln 2 in two parts; the first has 9 trailing zero bits, so that its product with an exponent is exact.
const LN2: [f32; 2] = [0.6933594, -2.1219444e-4];

/// `e^x`. Infinity from about 88.72 on, 0 below about -103.97, subnormal in between.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r² P(r), P of degree 5 (Cephes); the factor 2^n is applied in
/// two halves, so that a subnormal result is rounded once.
#[inline(always)]
pub fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    // Beyond these limits the result is infinite or 0 anyway. The operand order lets a NaN through.
    let x = s.max(s.splat(-104.0), s.min(s.splat(89.0), x));
    let n = s.to_i32(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let nf = s.to_f32(n);
    let r = s.fma(nf, s.splat(-LN2[0]), x);
    let r = s.fma(nf, s.splat(-LN2[1]), r);
    let p = polynomial(s, r, [1.9875691e-4, 1.3981999e-3, 8.333452e-3, 4.1665796e-2, 0.16666666, 0.5]);
    let p = s.add(s.fma(p, s.mul(r, r), r), s.splat(1.0));
    let half = s.sar_i::<1>(n);
    s.mul(s.mul(p, power_of_two(s, half)), power_of_two(s, s.sub_i(n, half)))
}

/// 2^n for n in -126..=127.
#[inline(always)]
fn power_of_two<S: Simd>(s: S, n: S::I) -> S::F {
    s.of_bits(s.shl_i::<23>(s.add_i(n, s.splat_i(127))))
}
