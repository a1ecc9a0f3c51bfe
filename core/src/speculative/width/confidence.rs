//! What a drafter's confidence is worth: how likely a proposal is that it is so sure of, and what cutting blocks by it gains.

use serde::{Deserialize, Serialize};

/// Classes of confidence: tenths.
const CLASSES: usize = 10;
/// A confidence itself weighs as much as this many proposals of its class.
const OWN_WORD: f64 = 12.0;
/// Proposals of a class after which an older one counts half.
const CLASS_HALF_LIFE: f64 = 200.0;
/// Rounds after which an older one counts half in what cutting gains. That is small beside its scatter, so it needs many.
const GAIN_HALF_LIFE: f64 = 1500.0;
/// Rounds that must count before cutting is believed to gain.
const LEAST: f64 = 100.0;
/// Standard errors by which the gain must be more than none.
const SURE: f64 = 1.5;

/// Predicted against accepted, and the gain of cuts that were made or could have been.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Calibration {
    classes: [Class; CLASSES],
    /// Tokens of a cut block, less those of the whole one and what its rows are worth: a round each.
    gain: Mean,
}

/// Proposals of a class that were reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Class {
    /// Sum of their confidence.
    predicted: f64,
    reached: f64,
    accepted: f64,
}

/// A mean that forgets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Mean {
    weight: f64,
    sum: f64,
    squares: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        let fade = (-std::f64::consts::LN_2 / GAIN_HALF_LIFE).exp();
        self.weight = self.weight * fade + 1.0;
        self.sum = self.sum * fade + value;
        self.squares = self.squares * fade + value * value;
    }

    /// Whether the mean is above none by more than chance would have it.
    fn is_more_than_none(&self) -> bool {
        if self.weight < LEAST {
            return false;
        }
        let mean = self.sum / self.weight;
        let variance = (self.squares / self.weight - mean * mean).max(0.0);
        mean > SURE * (variance / self.weight).sqrt()
    }

    fn is_sound(&self) -> bool {
        [self.weight, self.sum, self.squares].iter().all(|value| value.is_finite() && value.abs() < 1e9)
    }
}

impl Calibration {
    /// The chance of a proposal that the drafter gives the chance `confidence`.
    pub(crate) fn chance(&self, confidence: f64) -> f64 {
        let class = &self.classes[class_of(confidence)];
        let off = (class.accepted - class.predicted) / (class.reached + OWN_WORD);
        (confidence + off).clamp(0.0, 1.0)
    }

    /// A proposal was reached.
    pub(crate) fn seen(&mut self, confidence: f64, accepted: bool) {
        let truth = f64::from(u8::from(accepted));
        let class = &mut self.classes[class_of(confidence)];
        let fade = (-std::f64::consts::LN_2 / CLASS_HALF_LIFE).exp();
        for (count, more) in
            [(&mut class.predicted, confidence), (&mut class.reached, 1.0), (&mut class.accepted, truth)]
        {
            *count = *count * fade + more;
        }
    }

    /// A round that was cut, or would have been, gained `tokens` by it (0 if it had been left whole).
    pub(crate) fn gained(&mut self, tokens: f64) {
        self.gain.add(tokens);
    }

    /// Whether blocks are to be cut: widths that follow the confidence gain over those that follow the positions alone.
    pub(crate) fn pays(&self) -> bool {
        self.gain.is_more_than_none()
    }

    /// Whether the counts could have been counted.
    pub(crate) fn is_sound(&self) -> bool {
        let class = |class: &Class| {
            class.reached.is_finite()
                && (0.0..=class.reached).contains(&class.accepted)
                && (0.0..=class.reached).contains(&class.predicted)
        };
        self.classes.iter().all(class) && self.gain.is_sound()
    }
}

fn class_of(confidence: f64) -> usize {
    ((confidence * CLASSES as f64) as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proposals with a confidence of 0.1 to 0.9 in turn, accepted as `accepted` says of the confidence and a number in 0..1.
    fn taught(accepted: impl Fn(f64, f64) -> bool) -> Calibration {
        let mut calibration = Calibration::default();
        for i in 0..2000u32 {
            let confidence = f64::from(1 + i % 9) / 10.0;
            let luck = f64::from(i.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24);
            calibration.seen(confidence, accepted(confidence, luck));
        }
        calibration
    }

    #[test]
    fn an_honest_drafter_is_believed() {
        let calibration = taught(|confidence, luck| luck < confidence);
        assert!(
            (calibration.chance(0.25) - 0.25).abs() < 0.1 && (calibration.chance(0.85) - 0.85).abs() < 0.1
        );
        assert!(!calibration.pays(), "nothing was cut yet");
    }

    #[test]
    fn one_that_is_too_sure_is_put_right() {
        let calibration = taught(|confidence, luck| luck < confidence / 2.0);
        assert!((calibration.chance(0.85) - 0.42).abs() < 0.1, "{}", calibration.chance(0.85));
    }

    #[test]
    fn one_that_guesses_says_nothing() {
        let calibration = taught(|_, luck| luck < 0.5);
        for confidence in [0.1, 0.5, 0.9] {
            assert!((calibration.chance(confidence) - 0.5).abs() < 0.1, "{}", calibration.chance(confidence));
        }
    }

    #[test]
    fn cuts_that_lose_are_none() {
        let mut calibration = taught(|confidence, luck| luck < confidence);
        let gains = |calibration: &mut Calibration, other: f64| {
            (0..400).for_each(|round| calibration.gained(if round % 2 == 0 { 1.0 } else { other }));
        };
        gains(&mut calibration, -1.1);
        assert!(!calibration.pays());
        gains(&mut calibration, -0.5);
        assert!(calibration.pays());
    }

    #[test]
    fn what_cannot_have_been_counted_is_seen() {
        let sound = taught(|confidence, luck| luck < confidence);
        assert!(sound.is_sound());
        let mut broken = sound.clone();
        broken.classes[3].accepted = broken.classes[3].reached + 1.0;
        assert!(!broken.is_sound());
        let mut broken = sound;
        broken.gain.sum = f64::NAN;
        assert!(!broken.is_sound());
    }
}
