//! Accuracy against f64, special values, and the same bits on every instruction set.

use super::{apply, exp, log, log_1p, scalar, sigmoid, silu, sin_cos, softplus, tanh};
use crate::{Isa, dispatch, simd::Simd, testing::same};

/// `$f` over a slice, on instruction set `$isa`.
macro_rules! run {
    ($isa:expr, $f:ident, $x:expr) => {{
        let mut y: Vec<f32> = $x.to_vec();
        dispatch!($isa, |s| apply(
            s,
            &mut y,
            #[inline(always)]
            |v| $f(s, v)
        ));
        y
    }};
}

/// Distance of `got` from the exact `want` in units in the last place of f32 at `want`.
fn ulps(got: f32, want: f64) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let rounded = want as f32;
    if rounded.is_infinite() || got.is_infinite() {
        return if rounded == got { 0.0 } else { f64::INFINITY };
    }
    let exponent = (rounded.abs().to_bits() >> 23).max(1) as i32 - 127 - 23;
    (got as f64 - want).abs() / 2f64.powi(exponent)
}

/// Dense values: linear over `[low, high]` plus every 4099th bit pattern inside it.
fn dense(low: f32, high: f32) -> Vec<f32> {
    let linear =
        (0..400_000).map(|i| (low as f64 + (high as f64 - low as f64) * i as f64 / 400_000.0) as f32);
    let patterns = (0..u32::MAX / 4099).map(|i| f32::from_bits(i * 4099));
    linear.chain(patterns.filter(|x| (low..=high).contains(x))).collect()
}

macro_rules! accurate {
    ($name:ident, $f:ident, $want:expr, $limit:expr, $($range:expr),+) => {
        #[test]
        fn $name() {
            let want: fn(f64) -> f64 = $want;
            for (low, high) in [$($range),+] {
                let x = dense(low, high);
                let y = run!(Isa::detect(), $f, x);
                let (worst, at) = x.iter().zip(&y).map(|(&x, &y)| (ulps(y, want(x as f64)), x))
                    .fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
                assert!(worst <= $limit, "{worst} ulp at {at:e}, limit {}", $limit);
            }
        }
    };
}

accurate!(exp_is_accurate, exp, f64::exp, 1.0, (-110.0, 95.0), (-1.0, 1.0));
accurate!(log_is_accurate, log, f64::ln, 1.0, (0.0, f32::MAX), (0.5, 2.0), (0.0, 1e-37));
accurate!(log_1p_is_accurate, log_1p, f64::ln_1p, 2.0, (-1.0, 1.0), (-1e-3, 1e-3), (0.0, 1e20));
accurate!(sigmoid_is_accurate, sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 2.5, (-100.0, 100.0), (-2.0, 2.0));
accurate!(silu_is_accurate, silu, |x| x / (1.0 + (-x).exp()), 3.5, (-80.0, 100.0), (-2.0, 2.0));
accurate!(
    softplus_is_accurate,
    softplus,
    |x| x.max(0.0) + (-x.abs()).exp().ln_1p(),
    2.0,
    (-100.0, 100.0),
    (-2.0, 2.0)
);
accurate!(tanh_is_accurate, tanh, f64::tanh, 2.0, (-20.0, 20.0), (-1.0, 1.0));

/// One of the two results of [`sin_cos`].
#[inline(always)]
fn sin<S: Simd>(s: S, x: S::F) -> S::F {
    sin_cos(s, x).0
}

#[inline(always)]
fn cos<S: Simd>(s: S, x: S::F) -> S::F {
    sin_cos(s, x).1
}

accurate!(sin_is_accurate, sin, f64::sin, 2.0, (-4.0, 4.0), (-524_288.0, 524_288.0));
accurate!(cos_is_accurate, cos, f64::cos, 2.0, (-4.0, 4.0), (-524_288.0, 524_288.0));

#[test]
fn integer_angles_of_long_contexts_are_accurate() {
    // The fastest frequency of a rotary embedding turns by whole radians.
    let x: Vec<f32> = (0..=262_144).map(|i| i as f32).collect();
    for (y, want) in
        [(run!(Isa::detect(), sin, x), f64::sin as fn(f64) -> f64), (run!(Isa::detect(), cos, x), f64::cos)]
    {
        let worst = x.iter().zip(&y).map(|(&x, &y)| ulps(y, want(x as f64))).fold(0.0, f64::max);
        assert!(worst <= 2.0, "{worst} ulp");
    }
}

/// A function, and arguments with their values.
type Cases<'a> = (fn(f32) -> f32, &'a [(f32, f32)]);

#[test]
fn special_values() {
    let (inf, nan, tiny) = (f32::INFINITY, f32::NAN, f32::from_bits(1));
    let cases: [Cases<'_>; 7] = [
        (
            scalar::exp,
            &[
                (0.0, 1.0),
                (-0.0, 1.0),
                (inf, inf),
                (-inf, 0.0),
                (nan, nan),
                (tiny, 1.0),
                (89.0, inf),
                (-105.0, 0.0),
            ],
        ),
        (
            scalar::log,
            &[
                (1.0, 0.0),
                (0.0, -inf),
                (-0.0, -inf),
                (inf, inf),
                (-1.0, nan),
                (-inf, nan),
                (nan, nan),
                (tiny, -103.278_93),
            ],
        ),
        (scalar::log_1p, &[(0.0, 0.0), (-1.0, -inf), (inf, inf), (-2.0, nan), (nan, nan), (tiny, tiny)]),
        (scalar::sigmoid, &[(0.0, 0.5), (inf, 1.0), (-inf, 0.0), (nan, nan)]),
        (scalar::silu, &[(0.0, 0.0), (inf, inf), (-inf, nan), (nan, nan)]),
        (scalar::softplus, &[(inf, inf), (-inf, 0.0), (nan, nan)]),
        (scalar::tanh, &[(0.0, 0.0), (inf, 1.0), (-inf, -1.0), (nan, nan), (tiny, tiny), (-tiny, -tiny)]),
    ];
    for (i, (f, values)) in cases.iter().enumerate() {
        for &(x, want) in *values {
            let y = f(x);
            assert!(
                y == want || (y.is_nan() && want.is_nan()),
                "function {i} of {x:e}: {y:e}, expected {want:e}"
            );
        }
    }
    for isa in Isa::available() {
        assert!(run!(isa, sin, [inf, -inf, nan]).iter().all(|y| y.is_nan()));
        assert_eq!(run!(isa, cos, [0.0, -0.0]), [1.0, 1.0]);
    }
}

#[test]
fn all_instruction_sets_and_the_scalar_forms_agree() {
    let x: Vec<f32> = (0..u32::MAX / 40_009).map(|i| f32::from_bits(i * 40_009)).collect();
    macro_rules! agree {
        ($($f:ident)*) => {$(
            let first = run!(Isa::detect(), $f, x);
            for isa in Isa::available() {
                same(&run!(isa, $f, x), &first, stringify!($f));
            }
        )*};
    }
    agree!(exp log log_1p sigmoid silu softplus tanh sin cos);
    for (&x, want) in x.iter().step_by(97).zip(run!(Isa::detect(), log, x).into_iter().step_by(97)) {
        same(&[scalar::log(x)], &[want], "scalar log");
    }
}

#[test]
fn a_tail_has_the_bits_of_full_lanes() {
    let x: Vec<f32> = (0..48).map(|i| i as f32 / 7.0 - 3.0).collect();
    let whole = run!(Isa::detect(), exp, x);
    for n in 0..48 {
        same(&run!(Isa::detect(), exp, x[..n]), &whole[..n], "prefix");
    }
}
