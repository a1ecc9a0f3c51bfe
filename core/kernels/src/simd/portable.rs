//! Plain Rust on arrays.

use std::array::from_fn;

use super::{LANES, Simd, bf16_to_f32, f16_to_f32, f32_to_bf16, sealed::Sealed};

/// Token of [`crate::Isa::Portable`]; every machine has it.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl Sealed for Portable {}

type F = [f32; LANES];
type I = [i32; LANES];
type M = [bool; LANES];

/// Folds lanes along the tree of [`Simd::reduce_add`].
#[inline(always)]
fn tree<T: Copy>(mut v: [T; LANES], f: impl Fn(T, T) -> T) -> T {
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            v[i] = f(v[i], v[i + half]);
        }
    }
    v[0]
}

#[inline(always)]
fn round(v: f32) -> i32 {
    let r = v.round_ties_even();
    // 2^31 itself does not fit; NaN fails the comparison.
    if (-2_147_483_648.0..2_147_483_648.0).contains(&r) { r as i32 } else { i32::MIN }
}

#[inline(always)]
fn dot(acc: i32, u: i32, i: i32) -> i32 {
    let (u, i) = (u.to_le_bytes(), i.to_le_bytes());
    (0..4).fold(acc, |sum, t| sum.wrapping_add(u[t] as i32 * i[t] as i8 as i32))
}

/// Methods that work lane by lane.
macro_rules! lanewise {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $body:expr;)*) => {
        $(#[inline(always)]
        fn $name(self, $($arg: $ty),*) -> $out {
            from_fn(#[inline(always)] |lane| { $(let $arg = $arg[lane];)* $body })
        })*
    };
}

impl Simd for Portable {
    type F = F;
    type I = I;
    type M = M;
    const REGISTERS: usize = 4;

    #[inline(always)]
    fn vectorize<R>(self, f: impl FnOnce(Self) -> R) -> R {
        f(self)
    }

    #[inline(always)]
    fn splat(self, v: f32) -> F {
        [v; LANES]
    }
    #[inline(always)]
    fn load(self, p: &F) -> F {
        *p
    }
    #[inline(always)]
    fn store(self, p: &mut F, v: F) {
        *p = v;
    }
    #[inline(always)]
    fn load_bf16(self, p: &[u16; LANES]) -> F {
        p.map(bf16_to_f32)
    }
    #[inline(always)]
    fn load_f16(self, p: &[u16; LANES]) -> F {
        p.map(f16_to_f32)
    }
    #[inline(always)]
    fn store_bf16(self, p: &mut [u16; LANES], v: F) {
        *p = v.map(f32_to_bf16);
    }

    lanewise! {
        add(a: F, b: F) -> F = a + b;
        sub(a: F, b: F) -> F = a - b;
        mul(a: F, b: F) -> F = a * b;
        div(a: F, b: F) -> F = a / b;
        fma(a: F, b: F, c: F) -> F = a.mul_add(b, c);
        sqrt(a: F) -> F = a.sqrt();
        max(a: F, b: F) -> F = if a > b { a } else { b };
        min(a: F, b: F) -> F = if a < b { a } else { b };
        abs(a: F) -> F = a.abs();
        neg(a: F) -> F = -a;
        lt(a: F, b: F) -> M = a < b;
        le(a: F, b: F) -> M = a <= b;
        eq(a: F, b: F) -> M = a == b;
        is_nan(a: F) -> M = a.is_nan();
        select(m: M, a: F, b: F) -> F = if m { a } else { b };
        to_i32(a: F) -> I = round(a);
        to_f32(a: I) -> F = a as f32;
        bits(a: F) -> I = a.to_bits() as i32;
        of_bits(a: I) -> F = f32::from_bits(a as u32);
        add_i(a: I, b: I) -> I = a.wrapping_add(b);
        sub_i(a: I, b: I) -> I = a.wrapping_sub(b);
        max_i(a: I, b: I) -> I = a.max(b);
        and_i(a: I, b: I) -> I = a & b;
        or_i(a: I, b: I) -> I = a | b;
        dot4(acc: I, u: I, i: I) -> I = dot(acc, u, i);
    }

    #[inline(always)]
    fn first(self, n: usize) -> M {
        from_fn(|lane| lane < n)
    }
    #[inline(always)]
    fn any(self, m: M) -> bool {
        m.contains(&true)
    }
    #[inline(always)]
    fn splat_i(self, v: i32) -> I {
        [v; LANES]
    }
    #[inline(always)]
    fn load_i(self, p: &I) -> I {
        *p
    }
    #[inline(always)]
    fn store_i(self, p: &mut I, v: I) {
        *p = v;
    }
    #[inline(always)]
    fn shl_i<const N: u32>(self, a: I) -> I {
        a.map(|v| v << N)
    }
    #[inline(always)]
    fn shr_i<const N: u32>(self, a: I) -> I {
        a.map(|v| (v as u32 >> N) as i32)
    }
    #[inline(always)]
    fn sar_i<const N: u32>(self, a: I) -> I {
        a.map(|v| v >> N)
    }
    #[inline(always)]
    fn store_i8(self, p: &mut [i8; LANES], v: I) {
        *p = v.map(|v| v as i8);
    }
    #[inline(always)]
    fn store_i16(self, p: &mut [i16; LANES], v: I) {
        *p = v.map(|v| v as i16);
    }
    #[inline(always)]
    fn reduce_add(self, a: F) -> f32 {
        tree(a, |a, b| a + b)
    }
    #[inline(always)]
    fn reduce_max(self, a: F) -> f32 {
        tree(a, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn reduce_add_i(self, a: I) -> i32 {
        tree(a, i32::wrapping_add)
    }
    #[inline(always)]
    fn reduce_max_i(self, a: I) -> i32 {
        tree(a, i32::max)
    }
}
