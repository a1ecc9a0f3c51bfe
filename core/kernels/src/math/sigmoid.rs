//! Functions built on the exponential.

use super::{exp, log_1p, polynomial};
use crate::simd::Simd;

/// `1 / (1 + e^-x)`; computed from e^-|x|, so that small values keep their precision.
#[inline(always)]
pub fn sigmoid<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    let e = exp(s, s.neg(s.abs(x)));
    let top = s.select(s.lt(x, s.splat(0.0)), e, one);
    s.div(top, s.add(one, e))
}

/// `x · sigmoid(x)`.
#[inline(always)]
pub fn silu<S: Simd>(s: S, x: S::F) -> S::F {
    s.mul(x, sigmoid(s, x))
}

/// `ln(1 + e^x)` = max(x, 0) + ln(1 + e^-|x|).
#[inline(always)]
pub fn softplus<S: Simd>(s: S, x: S::F) -> S::F {
    let rest = log_1p(s, exp(s, s.neg(s.abs(x))));
    s.add(s.max(s.splat(0.0), x), rest)
}

/// Hyperbolic tangent: an odd polynomial below 0.625 (Cephes), else 1 - 2 / (e^2|x| + 1) with the sign of x.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let a = s.abs(x);
    let z = s.mul(x, x);
    let p = polynomial(s, z, [-5.7049887e-3, 2.0639088e-2, -5.3739715e-2, 0.13331442, -0.3333328]);
    let small = s.fma(s.mul(p, z), x, x);

    let one = s.splat(1.0);
    let e = exp(s, s.add(a, a));
    let large = s.sub(one, s.div(s.splat(2.0), s.add(e, one)));
    let sign = s.and_i(s.bits(x), s.splat_i(i32::MIN));
    let large = s.of_bits(s.or_i(s.bits(large), sign));
    s.select(s.lt(a, s.splat(0.625)), small, large)
}
