//! A median and what it may be: order statistics, without assumptions about how times are spread.

/// The median of repeated measurements, with the interval between two of them that holds it with the named confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Probability that the true median lies between `low` and `high`.
    pub(super) confidence: f64,
}

/// The confidence aimed at.
const AIM: f64 = 0.95;

impl Interval {
    /// Of at least one measurement: the narrowest pair of order statistics with a confidence of 95 %, or the whole range where
    /// there are too few measurements for that.
    pub(super) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let middle = n / 2;
        let median = match n {
            0 => return None,
            _ if n % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        };
        let cut = (0..n.div_ceil(2)).rev().find(|&cut| confidence(n, cut) >= AIM).unwrap_or(0);
        Some(Self { median, low: sorted[cut], high: sorted[n - 1 - cut], confidence: confidence(n, cut) })
    }
}

/// Probability that the median lies between the order statistics `cut` from either end of `n`: each measurement is below
/// the median with probability ½.
fn confidence(n: usize, cut: usize) -> f64 {
    let mut ways = 1.0;
    let mut outside = 0.0;
    for i in 0..=cut {
        outside += ways;
        ways *= (n - i) as f64 / (i + 1) as f64;
    }
    (1.0 - 2.0 * outside * 0.5f64.powi(n as i32)).max(0.0)
}

/// The geometric mean.
pub(super) fn geometric_mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    (values.map(f64::ln).sum::<f64>() / count).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(n: usize) -> Vec<f64> {
        (1..=n).map(|i| i as f64).collect()
    }

    /// Tables of the sign test.
    #[test]
    fn intervals_are_those_of_the_sign_test() {
        for (n, low, high, confidence) in [
            (5, 1.0, 5.0, 0.9375),
            (6, 1.0, 6.0, 0.96875),
            (10, 2.0, 9.0, 0.978_515_625),
            (20, 6.0, 15.0, 0.9586),
        ] {
            let interval = Interval::of(&ramp(n)).unwrap();
            assert_eq!((interval.low, interval.high), (low, high), "{n}");
            assert!((interval.confidence - confidence).abs() < 1e-4, "{n}: {interval:?}");
        }
    }

    #[test]
    fn one_measurement_says_little() {
        let interval = Interval::of(&[2.0]).unwrap();
        assert_eq!(interval, Interval { median: 2.0, low: 2.0, high: 2.0, confidence: 0.0 });
        assert_eq!(Interval::of(&[]), None);
        assert_eq!(Interval::of(&[4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
    }

    #[test]
    fn the_mean_of_ratios_is_geometric() {
        assert!((geometric_mean([0.5, 2.0].into_iter()) - 1.0).abs() < 1e-12);
    }
}
