//! Gumbel noise `G(seed, choice, t, v)`: a pure function of four integers, with the same bits on every CPU.
//!
//! # Algorithm
//!
//! All integers wrap; `f32` is IEEE with round to nearest even and subnormals never occur; `fma` rounds once. A GPU kernel
//! that follows the steps in this order, without fast-math, gives the same bits.
//!
//! 1. **Keys**, once per position (64-bit): `m(x)` is the SplitMix64 finaliser,
//!    `x ^= x >> 30; x *= 0xBF58476D1CE4E5B9; x ^= x >> 27; x *= 0x94D049BB133111EB; x ^= x >> 31`, and
//!    `φ = 0x9E3779B97F4A7C15`. `s = m(m(seed + φ) ^ choice)`, `k = m((s + φ) ^ t)`; `k0` = low 32 bits of `k`, `k1` =
//!    high 32 bits.
//! 2. **Bits** (32-bit): `x = h(h(v ^ k0) + k1)` with
//!    `h(x): x ^= x >> 16; x *= 0x7FEB352D; x ^= x >> 15; x *= 0x846CA68B; x ^= x >> 16` ("lowbias32", C. Wellons).
//! 3. **Exponential** `E = −log1p(−w)`, `w = (x + ½)·2⁻³²`, at full relative precision at both ends:
//!    * if `x < 0x55555555` (`w < ⅓`): `w = (f32(x) + 0.5) · 2⁻³²`, `E = −p(−w)`;
//!    * else `u = (f32(!x) + 0.5) · 2⁻³²` (`= 1 − w`), `E = −ln(u)`.
//! 4. **Gumbel** `G = −ln(E)`.
//!
//! `ln(a)` for normal positive `a`: `i` = bits of `a` as i32, `e = (i − 0x3F2AAAAB) & 0xFF800000`, `m` = float of bits
//! `i − e` (so `m ∈ [⅔, 4⁄3)`), `ln(a) = fma(f32(e >> 23), LN_2, p(m − 1))` with the arithmetic shift and
//! `LN_2 = 0x3F317218`.
//!
//! `p(r)` is log1p on `[−⅓, ⅓]`: Horner by fma, `q = C8; q = fma(q, r, C7) … q = fma(q, r, C0)`, then `fma(r · r, q, r)`.
//! The coefficients are the minimax fit of `(log1p(r) − r)/r²` weighted for relative error (4.5e-9 before rounding).
//!
//! `x` runs over all of 2³² values, so `w ∈ [2⁻³³, 1 − 2⁻³³]`, `E ∈ [2⁻³³, 22.874]` and `G ∈ [−3.130, 22.874]`: never
//! infinite.

use crate::sampling::Seed;
use crate::{Position, TokenId};

/// No noise is above this (the largest is 33·ln 2 = 22.8738…): `l + T · G_MAX` bounds any score.
pub const G_MAX: f32 = 22.9;

const PHI: u64 = 0x9E37_79B9_7F4A_7C15;

/// Coefficients C0…C8 of `p`, lowest power first.
const LOG1P: [f32; 9] = [
    f32::from_bits(0xBF00_0000),
    f32::from_bits(0x3EAA_AA81),
    f32::from_bits(0xBE7F_FF42),
    f32::from_bits(0x3E4C_E8F9),
    f32::from_bits(0xBE2A_D3AA),
    f32::from_bits(0x3E0F_5F34),
    f32::from_bits(0xBDF9_2EED),
    f32::from_bits(0x3E0F_68A1),
    f32::from_bits(0xBE04_98F0),
];

/// The noise of one position of one choice; drafter and target share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    k0: u32,
    k1: u32,
}

impl Noise {
    /// The noise of the token at `position` in choice `choice` (choice i of `n`, prompt i of a list) of a request.
    pub const fn new(seed: Seed, choice: u64, position: Position) -> Self {
        let stream = mix(mix(seed.0.wrapping_add(PHI)) ^ choice);
        let k = mix(stream.wrapping_add(PHI) ^ position.0 as u64);
        Self { k0: k as u32, k1: (k >> 32) as u32 }
    }

    /// 32 uniform bits of `id`; the low values are the large noise.
    #[inline(always)]
    pub(crate) const fn bits(self, id: u32) -> u32 {
        hash(hash(id ^ self.k0).wrapping_add(self.k1))
    }

    /// `G` of one id, in about [−3.13, 22.88].
    pub fn gumbel(self, id: TokenId) -> f32 {
        gumbel_of_bits(self.bits(id.0))
    }

    /// `G` of each of `ids` into `out`, both `[n]`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn gumbel_into(self, ids: &[TokenId], out: &mut [f32]) {
        assert_eq!(ids.len(), out.len(), "one noise value for each id");
        for (noise, id) in out.iter_mut().zip(ids) {
            *noise = gumbel_of_bits(self.bits(id.0));
        }
    }

    /// Keys `(k0, k1)`, for a kernel that makes the noise on a device.
    pub const fn keys(self) -> (u32, u32) {
        (self.k0, self.k1)
    }
}

/// SplitMix64 finaliser: every bit of the input reaches every bit of the output.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// "lowbias32": a bijection of 32 bits with full avalanche.
#[inline(always)]
const fn hash(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
    x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
    x ^ (x >> 16)
}

/// Steps 3 and 4 of the algorithm.
#[inline(always)]
pub(crate) fn gumbel_of_bits(x: u32) -> f32 {
    -ln(exponential_of_bits(x))
}

#[inline(always)]
fn exponential_of_bits(x: u32) -> f32 {
    if x < 0x5555_5555 { -log1p(-centred(x)) } else { -ln(centred(!x)) }
}

/// `(x + ½)·2⁻³²`, rounded to f32.
#[inline(always)]
const fn centred(x: u32) -> f32 {
    const SCALE: f32 = 1.0 / 4_294_967_296.0;
    (x as f32 + 0.5) * SCALE
}

/// A value that is never below `gumbel_of_bits(x)` and at most 0.07 above it where the noise is large (`w` below 1 %): the
/// logarithm read off the float's own bits.
///
/// Since `E ≥ w` and `log2(2^e·(1+f)) ≥ e + f`, `G ≤ −ln w ≤ −ln 2 · (e + f)`. The margin covers all roundings.
#[inline(always)]
pub(crate) fn gumbel_bound(x: u32) -> f32 {
    const MARGIN: f32 = 1e-3;
    const STEP: f32 = std::f32::consts::LN_2 / 8_388_608.0;
    const TOP: f32 = 127.0 * std::f32::consts::LN_2 + MARGIN;
    TOP - centred(x).to_bits().cast_signed() as f32 * STEP
}

/// Natural logarithm of a positive normal number.
#[inline(always)]
fn ln(a: f32) -> f32 {
    let bits = a.to_bits().cast_signed();
    let e = (bits - 0x3F2A_AAAB) & 0xFF80_0000_u32.cast_signed();
    let m = f32::from_bits((bits - e).cast_unsigned());
    ((e >> 23) as f32).mul_add(std::f32::consts::LN_2, log1p(m - 1.0))
}

/// `ln(1 + r)` for `r` in [−⅓, ⅓].
#[inline(always)]
fn log1p(r: f32) -> f32 {
    let mut q = LOG1P[8];
    for c in LOG1P[..8].iter().rev() {
        q = q.mul_add(r, *c);
    }
    (r * r).mul_add(q, r)
}

#[cfg(test)]
mod tests;
