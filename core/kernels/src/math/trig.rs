//! Sine and cosine, accurate for the angles of rotary embeddings.

use super::polynomial;
use crate::simd::Simd;

/// π/2 in three parts of 24 bits each.
const HALF_PI: [f32; 3] =
    [f32::from_bits(0x3fc9_0fdb), f32::from_bits(0xb33b_bd2e), f32::from_bits(0xa6f7_2ced)];

/// `(sin x, cos x)`, for |x| up to 2^22.
///
/// x = n π/2 + r, |r| <= π/4, by three fused steps (Cody and Waite): the first is exact, because n has at most 22 bits and
/// the difference is a small multiple of 2^-23; the second rounds relative to r. Polynomials of Cephes.
#[inline(always)]
pub fn sin_cos<S: Simd>(s: S, x: S::F) -> (S::F, S::F) {
    let n = s.to_i32(s.mul(x, s.splat(std::f32::consts::FRAC_2_PI)));
    let nf = s.to_f32(n);
    let r = HALF_PI.iter().fold(x, |r, &part| s.fma(nf, s.splat(-part), r));

    let z = s.mul(r, r);
    let p = polynomial(s, z, [-1.9515296e-4, 8.332161e-3, -0.16666655]);
    let sin = s.fma(s.mul(p, z), r, r);
    let p = polynomial(s, z, [2.4433157e-5, -1.3887316e-3, 4.1666646e-2]);
    let cos = s.add(s.fma(s.mul(z, z), p, s.mul(z, s.splat(-0.5))), s.splat(1.0));

    // Quadrant n mod 4: odd swaps the two; bit 1 of n flips the sine, bit 1 of n + 1 the cosine.
    let odd = s.lt(s.splat(0.5), s.to_f32(s.and_i(n, s.splat_i(1))));
    (flip(s, s.select(odd, cos, sin), n), flip(s, s.select(odd, sin, cos), s.add_i(n, s.splat_i(1))))
}

/// `v`, negated where bit 1 of `n` is set.
#[inline(always)]
fn flip<S: Simd>(s: S, v: S::F, n: S::I) -> S::F {
    let sign = s.shl_i::<30>(s.and_i(n, s.splat_i(2)));
    s.mul(v, s.of_bits(s.or_i(sign, s.splat_i(0x3f80_0000))))
}
