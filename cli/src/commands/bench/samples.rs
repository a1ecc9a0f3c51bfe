//! Repeated measurements of one thing.

use std::time::Duration;

/// Times of one thing, in the order measured.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct Samples(Vec<f64>);

impl Samples {
    pub(in crate::commands) fn push(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64());
    }

    /// The shortest, in seconds: what it costs when nothing disturbs it.
    pub(in crate::commands) fn min(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The middle one, in seconds.
    pub(in crate::commands) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => sorted[middle],
            _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_and_median() {
        let mut samples = Samples::default();
        assert!(samples.median().is_nan());
        for millis in [3, 1, 2] {
            samples.push(Duration::from_millis(millis));
        }
        assert!((samples.min() - 0.001).abs() < 1e-9 && (samples.median() - 0.002).abs() < 1e-9);
        samples.push(Duration::from_millis(10));
        assert!((samples.median() - 0.0025).abs() < 1e-9);
    }
}
