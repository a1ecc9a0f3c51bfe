//! What something costs by rows: a curve that is learned from single noisy times.
//!
//! ```text
//! ln time = level + curve(rows) + noise,   curve(1) = 0
//! ```
//!
//! The level is how fast the machine is just now: it moves quickly, with whatever else runs. The curve is what the models
//! and kernels are like: it hardly moves. Both are one Kalman filter over the level and the curve's steps between fixed
//! numbers of rows, so times at different widths are compared through the level, and a slow phase of the machine is not
//! blamed on the width that happened to run in it. A time that is far too long counts little (a Huber weight): other
//! processes make rounds longer, never shorter.

use std::array;

/// Rows at which the curve is known; straight lines in ln rows between them.
const KNOTS: [usize; 14] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512];
/// The level, then the steps from knot to knot.
const STATES: usize = KNOTS.len();

/// How the level moves in a round, as a standard deviation of ln time.
const LEVEL_DRIFT: f64 = 0.05;
/// How a step moves in a round.
const STEP_DRIFT: f64 = 0.003;
/// Noise of a time before it is measured, and its bounds.
const NOISE: (f64, f64, f64) = (0.08, 0.02, 0.3);
/// Times too long by more than this many standard deviations count less; too short ones by more than the second.
const DOUBT: (f64, f64) = (1.5, 4.0);

pub(crate) type Vector = [f64; STATES];

/// A curve under measurement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    mean: Vector,
    covariance: [Vector; STATES],
    noise: f64,
    measured: bool,
}

/// What was learned of a curve, to be kept.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Learned {
    /// The level, then the steps.
    mean: Vec<f64>,
    /// Of the same.
    covariance: Vec<Vec<f64>>,
}

/// What is believed before anything is measured: d ln time / d ln rows, and its standard deviation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slope {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

/// A time with the direction in which it depends on what is learned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Seconds.
    pub(crate) seconds: f64,
    /// d ln seconds by level and steps.
    pub(crate) slopes: Vector,
}

impl Curve {
    pub(crate) fn new(slope: Slope) -> Self {
        let mut covariance = [[0.0; STATES]; STATES];
        let mut mean = [0.0; STATES];
        for step in 1..STATES {
            let length = (KNOTS[step] as f64 / KNOTS[step - 1] as f64).ln();
            mean[step] = slope.mean * length;
            covariance[step][step] = slope.deviation.powi(2) * length;
        }
        Self { mean, covariance, noise: NOISE.0, measured: false }
    }

    /// Before anything is measured: what one row is thought to cost, in seconds, within a factor of about two.
    pub(crate) fn assume(&mut self, seconds: f64) {
        if !self.measured {
            self.mean[0] = seconds.ln();
            self.covariance[0][0] = 0.5;
        }
    }

    /// A curve that goes on from what was learned: steps are believed, the level only roughly.
    pub(crate) fn from_learned(slope: Slope, learned: &Learned) -> Self {
        let mut curve = Self::new(slope);
        if learned.is_sound() {
            curve.mean.copy_from_slice(&learned.mean);
            for (row, kept) in curve.covariance.iter_mut().zip(&learned.covariance) {
                row.copy_from_slice(kept);
            }
            curve.covariance[0][0] += 0.25;
            curve.measured = true;
        }
        curve
    }

    /// What is worth keeping; `None` before the first time.
    pub(crate) fn learned(&self) -> Option<Learned> {
        let covariance = || self.covariance.iter().map(|row| row.to_vec()).collect();
        self.measured.then(|| Learned { mean: self.mean.to_vec(), covariance: covariance() })
    }

    pub(crate) fn is_measured(&self) -> bool {
        self.measured
    }

    /// Takes the time of something of `rows` rows.
    pub(crate) fn measure(&mut self, rows: usize, seconds: f64) {
        if !(seconds.is_finite() && seconds > 0.0) {
            return;
        }
        let slopes = slopes(rows);
        if !self.measured {
            self.measured = true;
            self.mean[0] += seconds.ln() - dot(&slopes, &self.mean);
            // The first time of anything is a poor one.
            self.covariance[0][0] = 0.25;
            return;
        }
        self.covariance[0][0] += LEVEL_DRIFT.powi(2);
        for step in 1..STATES {
            self.covariance[step][step] += STEP_DRIFT.powi(2);
        }
        let surprise = seconds.ln() - dot(&slopes, &self.mean);
        let gain: Vector = array::from_fn(|i| dot(&self.covariance[i], &slopes));
        let believed = dot(&gain, &slopes);
        let spread = (believed + self.noise.powi(2)).sqrt();
        let doubt = if surprise > 0.0 { DOUBT.0 } else { DOUBT.1 };
        let weight = (doubt * spread / surprise.abs().max(1e-12)).min(1.0) / spread.powi(2);
        for i in (0..STATES).filter(|&i| gain[i] != 0.0) {
            self.mean[i] += gain[i] * weight * surprise;
            for (covariance, other) in self.covariance[i].iter_mut().zip(&gain) {
                *covariance -= gain[i] * other * weight;
            }
        }
        if believed < 4.0 * self.noise.powi(2) {
            let seen = 1.25 * surprise.abs().min(3.0 * spread);
            self.noise = (self.noise + 0.05 * (seen - self.noise)).clamp(NOISE.1, NOISE.2);
        }
    }

    /// What `rows` rows cost now.
    pub(crate) fn cost(&self, rows: usize) -> Cost {
        let slopes = slopes(rows);
        Cost { seconds: dot(&slopes, &self.mean).exp(), slopes }
    }

    /// Variance of `direction · (level, steps)`.
    pub(crate) fn variance(&self, direction: &Vector) -> f64 {
        // Most parts are zero: knots beyond the widths at hand.
        let used = direction.iter().rposition(|part| *part != 0.0).map_or(0, |last| last + 1);
        let rows = self.covariance[..used].iter().zip(direction);
        let part = |row: &Vector| row[..used].iter().zip(direction).map(|(a, b)| a * b).sum::<f64>();
        rows.map(|(row, weight)| weight * part(row)).sum::<f64>().max(0.0)
    }
}

impl Learned {
    fn is_sound(&self) -> bool {
        let fits = |values: &[f64], bound: f64| {
            values.len() == STATES && values.iter().all(|value| value.abs() <= bound)
        };
        let rows = self.covariance.iter().enumerate();
        fits(&self.mean, 30.0)
            && self.covariance.len() == STATES
            && rows.into_iter().all(|(i, row)| fits(row, 100.0) && row[i] >= 0.0)
    }
}

/// How ln time depends on level and steps at `rows` rows.
fn slopes(rows: usize) -> Vector {
    let rows = rows.clamp(1, KNOTS[STATES - 1]);
    array::from_fn(|i| match i {
        0 => 1.0,
        i => {
            let (from, to) = (KNOTS[i - 1] as f64, KNOTS[i] as f64);
            ((rows as f64 / from).ln() / (to / from).ln()).clamp(0.0, 1.0)
        }
    })
}

fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOPE: Slope = Slope { mean: 0.35, deviation: 0.3 };

    fn ratio(curve: &Curve, rows: usize) -> f64 {
        curve.cost(rows).seconds / curve.cost(1).seconds
    }

    #[test]
    fn widths_are_compared_through_the_level() {
        let mut curve = Curve::new(SLOPE);
        // 4 rows cost twice one row; the machine halves its speed in between, and only 4 rows run after that.
        for _ in 0..8 {
            curve.measure(1, 0.010);
        }
        for _ in 0..8 {
            curve.measure(4, 0.020);
        }
        for _ in 0..60 {
            curve.measure(4, 0.040);
        }
        assert!((ratio(&curve, 4) - 2.0).abs() < 0.3, "{}", ratio(&curve, 4));
        assert!((curve.cost(4).seconds - 0.040).abs() < 0.002);
    }

    #[test]
    fn a_disturbed_time_counts_little() {
        let mut curve = Curve::new(SLOPE);
        for _ in 0..20 {
            curve.measure(1, 0.010);
        }
        let mut disturbed = curve.clone();
        // The first time of a width is ten times too long, the next two are right.
        for (seconds, other) in [(0.150, 0.015), (0.015, 0.015), (0.015, 0.015)] {
            disturbed.measure(4, seconds);
            curve.measure(4, other);
        }
        assert!(ratio(&disturbed, 4) < 1.25 * ratio(&curve, 4), "{}", ratio(&disturbed, 4));
    }

    #[test]
    fn what_was_learned_is_kept() {
        let mut curve = Curve::new(SLOPE);
        assert_eq!(curve.learned(), None);
        for rows in [1, 2, 4, 8, 4, 1, 2] {
            curve.measure(rows, 0.01 * (rows as f64).powf(0.5));
        }
        let learned = curve.learned().unwrap_or_else(|| unreachable!("it was measured"));
        let again = Curve::from_learned(SLOPE, &learned);
        assert!((ratio(&again, 4) - ratio(&curve, 4)).abs() < 1e-9);
        let broken = Learned { mean: vec![f64::NAN; STATES], ..learned };
        assert!(!Curve::from_learned(SLOPE, &broken).is_measured());
    }
}
