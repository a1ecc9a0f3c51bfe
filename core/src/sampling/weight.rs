//! Unnormalised probability of a logit.

/// `exp(x)` for `x ≤ 0` to 2e-7 relative, 0 below −87; exactly 1 at 0 and the same bits on every CPU.
///
/// Multiplications and additions only, in this order and without fma, so that it vectorises on any CPU.
#[inline(always)]
pub(crate) fn weight(x: f32) -> f32 {
    const LOWEST: f32 = -87.0;
    /// Adding it rounds to an integer, which is then found in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    /// ln 2 in two parts; multiples of the first by small integers are exact.
    const LN_2_HIGH: f32 = 0.693_359_375;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    /// Minimax fit of `(exp(r) − 1 − r)/r²` on ±ln 2 / 2, lowest power first.
    const C: [f32; 5] = [0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_71, 0.001_381_461_3];

    let inside = if x < LOWEST { LOWEST } else { x };
    let shifted = inside * std::f32::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let r = (inside - n * LN_2_HIGH) - n * LN_2_LOW;
    let q = (((C[4] * r + C[3]) * r + C[2]) * r + C[1]) * r + C[0];
    let mantissa = r * r * q + r + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3F80_0000));
    if x < LOWEST { 0.0 } else { mantissa * power }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_exponential() {
        for step in 0..=870_000 {
            let x = -(step as f32) * 1e-4;
            let exact = (x as f64).exp();
            let error = (weight(x) as f64 - exact).abs() / exact;
            assert!(error < 2e-7, "x {x}: relative error {error}");
        }
    }

    #[test]
    fn ends() {
        assert_eq!(weight(0.0), 1.0);
        assert_eq!(weight(-0.0), 1.0);
        assert!(weight(-87.0) > 0.0);
        assert_eq!(weight(-87.001), 0.0);
        assert_eq!(weight(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn it_never_rises_as_the_logit_falls() {
        let mut x = 0.0_f32;
        let mut last = 1.0;
        while x > -88.0 {
            assert!(weight(x) <= last, "at {x}");
            last = weight(x);
            x -= 1e-3;
        }
    }
}
