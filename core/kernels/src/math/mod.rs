//! Elementary functions as fixed polynomials with fused multiply-adds: the same bits on every instruction set.
//!
//! Vector forms are generic over [`Simd`] and meant for use inside kernels; [`scalar`] and [`apply`] wrap them for single
//! values and slices, with the same bits. Errors are against the exact value, in units in the last place of f32,
//! and are what the tests assert.
//!
//! | function | error | notes |
//! | --- | --- | --- |
//! | [`exp`] | 1 ulp | subnormal results are correctly scaled, overflow gives infinity |
//! | [`log`], [`log_1p`] | 1, 2 ulp | -inf at the pole, NaN below it |
//! | [`sigmoid`], [`silu`] | 2.5, 3.5 ulp | silu(-inf) is NaN, as in x / (1 + exp(-x)) |
//! | [`softplus`] | 2 ulp | |
//! | [`tanh`] | 2 ulp | |
//! | [`sin_cos`] | 2 ulp for \|x\| <= 2^19 | NaN for infinities |
//!
//! A NaN in gives a NaN out, in that lane only.

mod exp;
mod log;
mod sigmoid;
#[cfg(test)]
mod tests;
mod trig;

pub use exp::exp;
pub use log::{log, log_1p};
pub use sigmoid::{sigmoid, silu, softplus, tanh};
pub use trig::sin_cos;

use crate::simd::{LANES, Simd};

/// Horner's rule with fused multiply-adds; `c` from the highest power down.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, x: S::F, c: [f32; N]) -> S::F {
    let mut p = s.splat(c[0]);
    for &c in &c[1..] {
        p = s.fma(p, x, s.splat(c));
    }
    p
}

/// Replaces every value of `x` by `f` of it, 16 at a time; a tail goes through full lanes, so its bits do not depend
/// on the length of the slice.
#[inline(always)]
pub fn apply<S: Simd>(s: S, x: &mut [f32], f: impl Fn(S::F) -> S::F) {
    let (full, rest) = x.as_chunks_mut::<LANES>();
    for chunk in full {
        let y = f(s.load(chunk));
        s.store(chunk, y);
    }
    if !rest.is_empty() {
        let y = f(s.load_partial(rest, 0.0));
        s.store_partial(rest, y);
    }
}

/// One value at a time, the bits of the vector forms.
pub mod scalar {
    use crate::{dispatch, isa, simd::Simd};

    macro_rules! scalar {
        ($($name:ident)*) => {$(
            #[doc = concat!("[`", stringify!($name), "`](super::", stringify!($name), "()) of one value.")]
            pub fn $name(x: f32) -> f32 {
                dispatch!(isa(), |s| {
                    let mut lanes = [0.0; 16];
                    s.store(&mut lanes, super::$name(s, s.splat(x)));
                    lanes[0]
                })
            }
        )*};
    }
    scalar!(exp log log_1p sigmoid silu softplus tanh);
}
