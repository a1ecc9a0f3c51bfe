//! Unnormalised probabilities: `exp((l − best)/T)`.

use mlxcel_kernels::simd::{LANES, Simd};
use mlxcel_kernels::{dispatch, isa};

/// softmax(l/T) of a row before it is normalised; the best logit weighs 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Softmax {
    pub(crate) best: f32,
    pub(crate) temperature: f32,
}

impl Softmax {
    /// `(l − best)/T`, at most 0.
    #[inline(always)]
    pub(crate) fn exponent(self, logit: f32) -> f32 {
        (logit - self.best) / self.temperature
    }

    /// [`exponent`](Self::exponent) of 16 logits.
    #[inline(always)]
    pub(crate) fn exponents<S: Simd>(self, s: S, logits: &[f32; LANES]) -> S::F {
        self.exponents_of(s, s.load(logits))
    }

    /// [`exponent`](Self::exponent) of each lane.
    #[inline(always)]
    pub(crate) fn exponents_of<S: Simd>(self, s: S, logits: S::F) -> S::F {
        s.div(s.sub(logits, s.splat(self.best)), s.splat(self.temperature))
    }

    /// The weight of a logit, at most 1.
    #[inline(always)]
    pub(crate) fn weight(self, logit: f32) -> f64 {
        exp(self.exponent(logit)) as f64
    }

    /// The logit with this exponent. Rounding keeps the order, so no f32 with a larger exponent is below it.
    pub(crate) fn logit_at(self, exponent: f64) -> f32 {
        (self.best as f64 + self.temperature as f64 * exponent) as f32
    }
}

/// Σ of all weights of a row: lane j sums the ids ≡ j (mod 16) in order, then the lanes are summed in order.
pub(crate) fn mass(logits: &[f32], softmax: Softmax) -> f64 {
    dispatch!(isa(), |s| lane_sums(s, logits, softmax)).iter().sum()
}

#[inline(always)]
fn lane_sums<S: Simd>(s: S, logits: &[f32], softmax: Softmax) -> [f64; LANES] {
    let mut sums = [0.0_f64; LANES];
    let (chunks, rest) = logits.as_chunks::<LANES>();
    let mut last = [f32::NEG_INFINITY; LANES];
    last[..rest.len()].copy_from_slice(rest);
    for chunk in chunks {
        add_weights(s, &mut sums, softmax, chunk);
    }
    add_weights(s, &mut sums, softmax, &last);
    sums
}

#[inline(always)]
fn add_weights<S: Simd>(s: S, sums: &mut [f64; LANES], softmax: Softmax, logits: &[f32; LANES]) {
    let mut weights = [0.0; LANES];
    s.store(&mut weights, exps(s, softmax.exponents(s, logits)));
    for i in 0..LANES {
        sums[i] += weights[i] as f64;
    }
}

const LOWEST: f32 = -87.0;
/// Adding it rounds to an integer, which is then found in the low bits.
const MAGIC: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has 10 bits (0.693359375), so its multiples by small integers are exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Minimax fit of `(exp(r) − 1 − r)/r²` on ±ln 2 / 2, lowest power first.
const C: [f32; 5] = [0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_71, 0.001_381_461_3];
/// The bits of 1.
const ONE: i32 = 0x3F80_0000;

/// `exp(x)` for `x ≤ 0` to 2e-7 relative, 0 below −87; exactly 1 at 0 and the same bits on every CPU.
///
/// Multiplications and additions only, in this order and without fma: [`exps`] has the same bits.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let inside = if x < LOWEST { LOWEST } else { x };
    let shifted = inside * std::f32::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let r = (inside - n * LN_2_HIGH) - n * LN_2_LOW;
    let q = (((C[4] * r + C[3]) * r + C[2]) * r + C[1]) * r + C[0];
    let mantissa = r * r * q + r + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(ONE.cast_unsigned()));
    if x < LOWEST { 0.0 } else { mantissa * power }
}

/// [`exp`] of 16 values, step by step the same.
#[inline(always)]
pub(crate) fn exps<S: Simd>(s: S, x: S::F) -> S::F {
    let inside = s.max(x, s.splat(LOWEST));
    let shifted = s.add(s.mul(inside, s.splat(std::f32::consts::LOG2_E)), s.splat(MAGIC));
    let n = s.sub(shifted, s.splat(MAGIC));
    let r = s.sub(inside, s.mul(n, s.splat(LN_2_HIGH)));
    let r = s.sub(r, s.mul(n, s.splat(LN_2_LOW)));
    let mut q = s.splat(C[4]);
    for c in [C[3], C[2], C[1], C[0]] {
        q = s.add(s.mul(q, r), s.splat(c));
    }
    let mantissa = s.add(s.add(s.mul(s.mul(r, r), q), r), s.splat(1.0));
    let power = s.of_bits(s.add_i(s.shl_i::<23>(s.bits(shifted)), s.splat_i(ONE)));
    s.select(s.lt(x, s.splat(LOWEST)), s.splat(0.0), s.mul(mantissa, power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential() {
        for step in 0..=870_000 {
            let x = -(step as f32) * 1e-4;
            let exact = (x as f64).exp();
            let error = (exp(x) as f64 - exact).abs() / exact;
            assert!(error < 2e-7, "x {x}: relative error {error}");
        }
    }

    #[test]
    fn vectors_have_the_bits_of_single_values() {
        for step in 0..54_375 {
            let x: [f32; LANES] = std::array::from_fn(|i| -((step * LANES + i) as f32) * 1.01e-4);
            for isa in mlxcel_kernels::Isa::available() {
                let mut got = [0.0; LANES];
                dispatch!(isa, |s| s.store(&mut got, exps(s, s.load(&x))));
                assert_eq!(
                    got.map(f32::to_bits),
                    x.map(|x| exp(x).to_bits()),
                    "{} from {}",
                    isa.name(),
                    x[0]
                );
            }
        }
        let ends = [f32::NEG_INFINITY, -0.0, -87.0, -87.001];
        let mut got = [1.0; LANES];
        let mut x = [0.0; LANES];
        x[..4].copy_from_slice(&ends);
        dispatch!(isa(), |s| s.store(&mut got, exps(s, s.load(&x))));
        assert_eq!(got.map(f32::to_bits), x.map(|x| exp(x).to_bits()));
    }

    #[test]
    fn ends() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert!(exp(-87.0) > 0.0);
        assert_eq!(exp(-87.001), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn it_never_rises_as_the_logit_falls() {
        let mut x = 0.0_f32;
        let mut last = 1.0;
        while x > -88.0 {
            assert!(exp(x) <= last, "at {x}");
            last = exp(x);
            x -= 1e-3;
        }
    }
}
