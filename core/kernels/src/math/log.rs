//! Natural logarithms.

use super::polynomial;
use crate::simd::Simd;

/// ln 2 in two parts; the first has 15 trailing zero bits, so that its product with an exponent is exact.
const LN2: [f32; 2] = [0.6931381, 9.058001e-6];
/// Bits of sqrt(1/2): mantissas are taken from [sqrt(1/2), sqrt(2)).
const SQRT_HALF: i32 = 0x3f35_04f3;
const ONE: i32 = 0x3f80_0000;

/// `ln x`: -inf at 0, NaN below.
///
/// x = 2^k m; with f = m - 1 and q = f / (2 + f), ln m = f - f²/2 + q (f²/2 + R(q²)) (the scheme and constants of FreeBSD's
/// msun).
#[inline(always)]
pub fn log<S: Simd>(s: S, x: S::F) -> S::F {
    let tiny = s.lt(x, s.splat(f32::MIN_POSITIVE));
    let scaled = s.select(tiny, s.mul(x, s.splat(33_554_432.0)), x);
    let shift = s.select(tiny, s.splat(-25.0), s.splat(0.0));
    let i = s.add_i(s.bits(scaled), s.splat_i(ONE - SQRT_HALF));
    let k = s.add(s.to_f32(s.sub_i(s.sar_i::<23>(i), s.splat_i(127))), shift);
    let m = s.of_bits(s.add_i(s.and_i(i, s.splat_i(0x007f_ffff)), s.splat_i(SQRT_HALF)));

    let f = s.sub(m, s.splat(1.0));
    let q = s.div(f, s.add(s.splat(2.0), f));
    let z = s.mul(q, q);
    let r = s.mul(z, polynomial(s, z, [0.24279079, 0.28498787, 0.40000972, 0.6666666]));
    let half_square = s.mul(s.mul(s.splat(0.5), f), f);
    let y = s.fma(q, s.add(half_square, r), s.mul(k, s.splat(LN2[1])));
    let y = s.add(s.sub(y, half_square), f);
    let y = s.fma(k, s.splat(LN2[0]), y);

    let y = s.select(s.lt(x, s.splat(f32::INFINITY)), y, x);
    let y = s.select(s.lt(x, s.splat(0.0)), s.splat(f32::NAN), y);
    s.select(s.eq(x, s.splat(0.0)), s.splat(f32::NEG_INFINITY), y)
}

/// `ln(1 + x)` without cancellation near 0: -inf at -1, NaN below.
///
/// With u the rounded 1 + x: ln u + (x - (u - 1)) / u.
#[inline(always)]
pub fn log_1p<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    let u = s.add(one, x);
    let lost = s.sub(x, s.sub(u, one));
    let main = log(s, u);
    let y = s.add(main, s.div(lost, u));
    // At the pole and at infinity the correction is 0/0 or inf - inf.
    let inside = s.lt(s.abs(main), s.splat(f32::INFINITY));
    s.select(inside, y, main)
}
