//! base^(-n/d) by arithmetic that is exact everywhere, so that no machine's libm decides a bit.

/// `base^(-numerator/denominator)`, rounded to f32.
pub(super) fn inverse(base: f64, numerator: usize, denominator: usize) -> f32 {
    exp(-(numerator as f64 / denominator as f64) * ln(base)) as f32
}

/// ln x of a positive normal number: x = 2^k m, ln m = 2 atanh((m - 1) / (m + 1)) as a series.
fn ln(x: f64) -> f64 {
    let mut k = (x.to_bits() >> 52) as i32 - 1023;
    let mut m = f64::from_bits(x.to_bits() & ((1 << 52) - 1) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        (m, k) = (m / 2.0, k + 1);
    }
    let q = (m - 1.0) / (m + 1.0);
    let series = (0..14).rev().fold(0.0, |sum, n| sum * q * q + 1.0 / (2 * n + 1) as f64);
    k as f64 * std::f64::consts::LN_2 + 2.0 * q * series
}

/// e^x for |x| < 700: x = n ln 2 + r, e^r as a series.
fn exp(x: f64) -> f64 {
    /// ln 2 in two parts; the product of the first with n is exact.
    const LN2: [f64; 2] = [f64::from_bits(0x3fe6_2e42_fee0_0000), f64::from_bits(0x3dea_39ef_3579_3c76)];
    let n = (x / std::f64::consts::LN_2).round_ties_even();
    let r = x - n * LN2[0] - n * LN2[1];
    let series = (1..18).rev().fold(1.0, |sum, i| sum * r / i as f64 + 1.0);
    series * f64::from_bits(((1023 + n as i64) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_system_library() {
        for base in [10_000.0, 500_000.0, 1e6, 5e6, 1e7, 1.5] {
            assert!((ln(base) / f64::ln(base) - 1.0).abs() < 1e-15);
            for dims in [8, 32, 64, 96, 128, 256] {
                for i in 0..dims / 2 {
                    let want = base.powf(-((2 * i) as f64) / dims as f64);
                    let got = inverse(base, 2 * i, dims);
                    assert!(
                        (got as f64 / want - 1.0).abs() < 6e-8,
                        "{base}^(-{}/{dims}): {got}, {want}",
                        2 * i
                    );
                }
            }
        }
        assert_eq!(inverse(1e6, 0, 64), 1.0);
        // Powers that are exact in f64 come out exactly.
        assert_eq!(inverse(65536.0, 16, 64), 1.0 / 16.0);
    }
}
