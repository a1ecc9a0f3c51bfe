//! 16 lanes of f32 and i32, the same bits on every instruction set.
//!
//! A kernel is written once, generic over [`Simd`], as an `#[inline(always)]` function whose first argument
//! is the token `s: S`, and is entered through [`dispatch!`](crate::dispatch), which picks the instruction set and compiles
//! the body inside a function with the target features on:
//!
//! ```
//! use mlxcel_kernels::{Exec, Isa, dispatch, simd::Simd};
//!
//! /// Sum of squares; lanes first, then the fixed tree of [`Simd::reduce_add`].
//! #[inline(always)]
//! fn sum_of_squares<S: Simd>(s: S, x: &[f32]) -> f32 {
//!     let mut acc = s.splat(0.0);
//!     let (full, rest) = x.as_chunks::<16>();
//!     for chunk in full {
//!         let v = s.load(chunk);
//!         acc = s.fma(v, v, acc);
//!     }
//!     let v = s.load_partial(rest, 0.0);
//!     acc = s.fma(v, v, acc);
//!     s.reduce_add(acc)
//! }
//!
//! let x: Vec<f32> = (0..100).map(|i| i as f32 / 7.0).collect();
//! let on = |isa| dispatch!(isa, |s| sum_of_squares(s, &x));
//! let all: Vec<f32> = Isa::available().into_iter().map(on).collect();
//! assert!(all.iter().all(|v| v.to_bits() == all[0].to_bits()));
//! ```
//!
//! Rules that keep the bits equal and the code fast:
//! * every helper that takes or returns a vector is `#[inline(always)]`, closures included, and no vector goes
//!   through `array::map`, `array::from_fn` or an iterator adapter with a closure: these may stay calls (a vector
//!   that crosses a real call is slow, and an intrinsic in a function without its features is a call itself: a
//!   thousand times slower, with the same bits, so no test shows it);
//! * only [`Simd`]'s operations touch floats, or scalar `+ - * / mul_add sqrt` (exact everywhere); no
//!   `f32::exp` and friends;
//! * a tail uses [`Simd::load_partial`] or goes through the same operations, so that its bits are those of
//!   full lanes;
//! * a token proves that the machine has the instructions, so all of this is safe code.
//!
//! NaN: an operation that meets a NaN gives *a* NaN on every instruction set, but its sign and payload may
//! differ. `max`, `min`, comparisons and conversions have one defined behaviour (see each).

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod half;
mod portable;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use half::{bf16_to_f32, f16_to_f32, f32_to_bf16};
pub use portable::Portable;

/// Lanes of a vector.
pub const LANES: usize = 16;

mod sealed {
    /// Only this module's tokens implement [`super::Simd`]: their bits are tested against each other.
    pub trait Sealed {}
}

/// 16 lanes of f32 ([`F`](Simd::F)), i32 ([`I`](Simd::I)) or booleans ([`M`](Simd::M)). `self` is a token
/// that proves the instructions exist. "Exact" below means the IEEE 754 result, round to nearest even.
pub trait Simd: Copy + Send + Sync + sealed::Sealed + 'static {
    /// 16 f32.
    type F: Copy;
    /// 16 i32.
    type I: Copy;
    /// 16 booleans.
    type M: Copy;
    /// Vector registers of 16 lanes, a guide for tile sizes.
    const REGISTERS: usize;

    /// Runs `f` inside a function that is compiled with this instruction set's target features.
    fn vectorize<R>(self, f: impl FnOnce(Self) -> R) -> R;

    /// `v` in every lane.
    fn splat(self, v: f32) -> Self::F;
    /// 16 f32 from memory.
    fn load(self, p: &[f32; LANES]) -> Self::F;
    /// 16 f32 to memory.
    fn store(self, p: &mut [f32; LANES], v: Self::F);
    /// 16 bf16 (as bits) widened, exact.
    fn load_bf16(self, p: &[u16; LANES]) -> Self::F;
    /// 16 f16 (as bits) widened, exact.
    fn load_f16(self, p: &[u16; LANES]) -> Self::F;
    /// `v` rounded to bf16 (as bits), nearest even; a NaN stays a NaN.
    fn store_bf16(self, p: &mut [u16; LANES], v: Self::F);
    /// `a + b`, exact.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`, exact.
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b`, exact.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`, exact.
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c` with one rounding, exact.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// Square root, exact.
    fn sqrt(self, a: Self::F) -> Self::F;
    /// `if a > b { a } else { b }`: `b` where either is NaN, `b` for zeros of either sign.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `if a < b { a } else { b }`: `b` where either is NaN, `b` for zeros of either sign.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// Clears the sign bit, of NaN too.
    fn abs(self, a: Self::F) -> Self::F;
    /// Flips the sign bit, of NaN too.
    fn neg(self, a: Self::F) -> Self::F;
    /// `a < b`; false where either is NaN.
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    /// `a <= b`; false where either is NaN.
    fn le(self, a: Self::F, b: Self::F) -> Self::M;
    /// `a == b`; false where either is NaN.
    fn eq(self, a: Self::F, b: Self::F) -> Self::M;
    /// Whether a lane is NaN.
    fn is_nan(self, a: Self::F) -> Self::M;
    /// True in lanes `0..n` (all of them from `n = 16` on).
    fn first(self, n: usize) -> Self::M;
    /// Whether any lane is true.
    fn any(self, m: Self::M) -> bool;
    /// `a` where `m` is true, else `b`.
    fn select(self, m: Self::M, a: Self::F, b: Self::F) -> Self::F;
    /// Nearest integer, ties to even; `i32::MIN` for NaN and where it does not fit.
    fn to_i32(self, a: Self::F) -> Self::I;
    /// Nearest f32, exact.
    fn to_f32(self, a: Self::I) -> Self::F;
    /// The bits of `a`.
    fn bits(self, a: Self::F) -> Self::I;
    /// The f32 with bits `a`.
    fn of_bits(self, a: Self::I) -> Self::F;

    /// `v` in every lane.
    fn splat_i(self, v: i32) -> Self::I;
    /// 16 i32 from memory.
    fn load_i(self, p: &[i32; LANES]) -> Self::I;
    /// 16 i32 to memory.
    fn store_i(self, p: &mut [i32; LANES], v: Self::I);
    /// `a + b`, wrapping.
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a - b`, wrapping.
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// The greater, signed.
    fn max_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise and.
    fn and_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or.
    fn or_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// Shift left by `N < 32`.
    fn shl_i<const N: u32>(self, a: Self::I) -> Self::I;
    /// Shift right by `N < 32`, zeros come in.
    fn shr_i<const N: u32>(self, a: Self::I) -> Self::I;
    /// Shift right by `N < 32`, the sign comes in.
    fn sar_i<const N: u32>(self, a: Self::I) -> Self::I;
    /// Per lane, `acc` + the four products of `u`'s bytes (unsigned) with `i`'s bytes (signed); exact, wraps
    /// in i32.
    fn dot4(self, acc: Self::I, u: Self::I, i: Self::I) -> Self::I;
    /// The lowest 8 bits of each lane.
    fn store_i8(self, p: &mut [i8; LANES], v: Self::I);
    /// The lowest 16 bits of each lane.
    fn store_i16(self, p: &mut [i16; LANES], v: Self::I);

    /// Sum of the lanes as a fixed tree: lane `i` + lane `i + 8`, then `+ 4`, `+ 2`, `+ 1`.
    fn reduce_add(self, a: Self::F) -> f32;
    /// [`max`](Simd::max) over the lanes along the tree of [`reduce_add`](Simd::reduce_add).
    fn reduce_max(self, a: Self::F) -> f32;
    /// Sum of the lanes, wrapping.
    fn reduce_add_i(self, a: Self::I) -> i32;
    /// Greatest lane, signed.
    fn reduce_max_i(self, a: Self::I) -> i32;

    /// `p` (at most 16 values) in the first lanes, `fill` in the others.
    #[inline(always)]
    fn load_partial(self, p: &[f32], fill: f32) -> Self::F {
        let mut lanes = [fill; LANES];
        lanes[..p.len()].copy_from_slice(p);
        self.load(&lanes)
    }
    /// The first `p.len()` lanes (at most 16) to memory.
    #[inline(always)]
    fn store_partial(self, p: &mut [f32], v: Self::F) {
        let mut lanes = [0.0; LANES];
        self.store(&mut lanes, v);
        p.copy_from_slice(&lanes[..p.len()]);
    }
    /// As [`load_partial`](Simd::load_partial), from bf16 bits.
    #[inline(always)]
    fn load_partial_bf16(self, p: &[u16], fill: u16) -> Self::F {
        let mut lanes = [fill; LANES];
        lanes[..p.len()].copy_from_slice(p);
        self.load_bf16(&lanes)
    }
}

/// `dispatch!(isa, |s| body)`: evaluates `body` with `s` the [`Simd`](crate::simd::Simd) token of `isa`,
/// compiled with its target features; an instruction set that the machine lacks runs as portable code (same
/// bits).
#[macro_export]
macro_rules! dispatch {
    ($isa:expr, |$s:ident| $body:expr) => {{
        let isa: $crate::Isa = $isa;
        match isa {
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx512 if let Some(token) = $crate::simd::Avx512::new() => {
                $crate::simd::Simd::vectorize(
                    token,
                    #[inline(always)]
                    |$s| $body,
                )
            }
            #[cfg(target_arch = "x86_64")]
            $crate::Isa::Avx2 if let Some(token) = $crate::simd::Avx2::new() => {
                $crate::simd::Simd::vectorize(
                    token,
                    #[inline(always)]
                    |$s| $body,
                )
            }
            _ => $crate::simd::Simd::vectorize(
                $crate::simd::Portable,
                #[inline(always)]
                |$s| $body,
            ),
        }
    }};
}
