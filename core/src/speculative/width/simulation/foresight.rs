//! What a made-up drafter says of its proposals.

use super::Random;
use crate::family::Confidence;

/// How much a drafter knows of what the target will say. Chances vary from proposal to proposal around that of the position.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Foresight {
    /// It says nothing.
    #[default]
    None,
    /// It says the chance of each proposal, which lies this part of the way from its position's towards 0 or 1.
    Knows(f64),
    /// It knows as much, and says the contrary.
    Lies(f64),
    /// It says what is drawn by lot.
    Guesses,
}

impl Foresight {
    /// The chances of `proposals`, and what the drafter says of them; `position` gives the chance of each position.
    pub(super) fn draw(
        self,
        random: &mut Random,
        proposals: usize,
        position: impl Fn(usize) -> f64,
    ) -> (Vec<f64>, Confidence) {
        let mut varied = |part: f64| -> Vec<f64> {
            let one = |i| {
                let mean = position(i);
                let end = if random.uniform() < mean { 1.0 } else { 0.0 };
                mean + part * (end - mean)
            };
            (0..proposals).map(one).collect()
        };
        let say = |chances: &[f64], what: fn(f64) -> f64| {
            chances.iter().map(|chance| what(*chance) as f32).collect()
        };
        match self {
            Self::None => ((0..proposals).map(position).collect(), Confidence::new()),
            Self::Knows(part) => {
                let chances = varied(part);
                let said = say(&chances, |chance| chance);
                (chances, said)
            }
            Self::Lies(part) => {
                let chances = varied(part);
                let said = say(&chances, |chance| 1.0 - chance);
                (chances, said)
            }
            Self::Guesses => {
                let chances = (0..proposals).map(position).collect();
                (chances, (0..proposals).map(|_| random.uniform() as f32).collect())
            }
        }
    }
}
