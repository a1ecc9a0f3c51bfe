//! How far proposals survive: one estimate by position, shared by all widths.

/// Observations count half after about this many speculative rounds.
const HALF_LIFE: f64 = 24.0;
/// The same for what is kept across requests.
const LONG_HALF_LIFE: f64 = 150.0;
/// A guess weighs as much as this many observations.
const GUESS: f64 = 1.5;
/// The same for the first position, where nothing comes before.
const FIRST_GUESS: f64 = 2.5;
/// The chance of the first position before anything is known.
const UNKNOWN: f64 = 0.6;
/// What the longer memory holds weighs in a guess as if it were this many observations at most.
const REMEMBERED: f64 = 60.0;
/// Classic rounds after which what is known counts half: the text goes on unseen.
const STALE: f64 = 60.0;
/// What counts of it at most, in observations, at the beginning of a park.
const PARKED: f64 = 24.0;
/// Variance that a chance gains in a long time without speculation.
const DOUBT: f64 = 0.05;

/// Counts by position: how often a proposal was reached (all before it accepted), and how often it was accepted. Counts
/// fade, so that an estimate follows the text.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Survival {
    reached: Vec<f64>,
    accepted: Vec<f64>,
}

/// The chance that the proposal at a position is accepted when it is reached, with its variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chance {
    pub(crate) mean: f64,
    pub(crate) variance: f64,
}

impl Survival {
    /// Takes the result of a round: `accepted` proposals, and whether the next one was looked at and refused. A block that
    /// was clipped says nothing of what follows.
    pub(crate) fn round(&mut self, accepted: usize, refused: bool) {
        self.count(accepted, refused, HALF_LIFE);
    }

    /// The same, for what is kept across requests.
    pub(crate) fn remember(&mut self, accepted: usize, refused: bool) {
        self.count(accepted, refused, LONG_HALF_LIFE);
    }

    fn count(&mut self, accepted: usize, refused: bool, half_life: f64) {
        self.fade((-std::f64::consts::LN_2 / half_life).exp());
        let reached = accepted + usize::from(refused);
        if self.reached.len() < reached {
            self.reached.resize(reached, 0.0);
            self.accepted.resize(reached, 0.0);
        }
        self.reached[..reached].iter_mut().for_each(|count| *count += 1.0);
        self.accepted[..accepted].iter_mut().for_each(|count| *count += 1.0);
    }

    /// Lets what is known count `factor` of what it did.
    pub(crate) fn fade(&mut self, factor: f64) {
        self.reached.iter_mut().chain(&mut self.accepted).for_each(|count| *count *= factor);
    }

    /// The chances of `positions` proposals, where `longer` is what earlier requests left, believed as far as `trust` (0 to 1)
    /// says, after `parked` classic rounds.
    /// A position that was seldom reached is guessed from the one before it.
    pub(crate) fn chances(&self, longer: &Self, trust: f64, positions: usize, parked: usize) -> Vec<Chance> {
        let (mut before, mut trust) = (UNKNOWN, trust);
        let fresh = freshness(parked);
        (0..positions)
            .map(|i| {
                let (reached, accepted) = longer.at(i);
                let (own, own_accepted) = self.at(i);
                // Another text is another text at every position.
                trust = trust.min(agreement((own, own_accepted), (reached, accepted)));
                let held = trust * reached.min(REMEMBERED) / reached.max(f64::MIN_POSITIVE);
                let seen = own + held * reached;
                let most = if parked > 0 { fresh * PARKED } else { f64::INFINITY };
                let part = (most / seen.max(f64::MIN_POSITIVE)).min(1.0);
                let guess = if i == 0 { FIRST_GUESS } else { GUESS };
                let weight = part * seen + guess;
                let mean = (part * (own_accepted + held * accepted) + guess * before) / weight;
                before = mean;
                let unseen = DOUBT * (1.0 - fresh);
                Chance { mean, variance: mean * (1.0 - mean) / (weight + 1.0) + unseen }
            })
            .collect()
    }

    /// Positions that were reached more than twice, here or in `longer`.
    pub(crate) fn depth(&self, longer: &Self) -> usize {
        let positions = self.reached.len().max(longer.reached.len());
        (0..positions).take_while(|&i| self.at(i).0 + longer.at(i).0 >= 2.5).count()
    }

    fn at(&self, position: usize) -> (f64, f64) {
        let get = |counts: &Vec<f64>| counts.get(position).copied().unwrap_or(0.0);
        (get(&self.reached), get(&self.accepted))
    }

    /// Whether the counts could have been counted.
    pub(crate) fn is_sound(&self) -> bool {
        let pairs = || self.reached.iter().zip(&self.accepted);
        self.reached.len() == self.accepted.len()
            && self.reached.len() < 1024
            && pairs()
                .all(|(reached, accepted)| reached.is_finite() && 0.0 <= *accepted && accepted <= reached)
    }
}

/// What knowledge is worth after `parked` classic rounds, during which the text went on unseen.
pub(crate) fn freshness(parked: usize) -> f64 {
    (-(parked as f64) / STALE).exp2()
}

/// How far what was remembered is believed beside what is seen now, each as (reached, accepted): 1 where they agree, towards
/// 0 the less chance explains the difference.
fn agreement(now: (f64, f64), before: (f64, f64)) -> f64 {
    // Half a success and half a failure each: few observations never contradict.
    let share = |(reached, accepted): (f64, f64)| (accepted + 0.5) / (reached + 1.0);
    let pooled = share((now.0 + before.0, now.1 + before.1));
    let variance = pooled * (1.0 - pooled) * (1.0 / (now.0 + 1.0) + 1.0 / (before.0 + 1.0));
    let difference = (share(now) - share(before)).powi(2) / variance;
    (-(difference - 1.0).max(0.0) / 2.0).exp()
}

/// Tokens that a block of `width` rows gives: 1 + Σ survival, with its derivative by every chance.
pub(crate) fn expected_tokens(chances: &[Chance], width: usize) -> (f64, Vec<f64>) {
    let chances = &chances[..(width - 1).min(chances.len())];
    let mut survival = Vec::with_capacity(chances.len());
    let mut product = 1.0;
    for chance in chances {
        product *= chance.mean;
        survival.push(product);
    }
    let tokens = 1.0 + survival.iter().sum::<f64>();
    // Each term from position i on has the chance of i as a factor.
    let mut tail = 0.0;
    let mut slopes = vec![0.0; chances.len()];
    for i in (0..chances.len()).rev() {
        tail += survival[i];
        slopes[i] = tail / chances[i].mean.max(1e-6);
    }
    (tokens, slopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_chances() {
        let mut survival = Survival::default();
        for round in 0..200 {
            // 3 of 4 rounds accept two, the others none.
            survival.round(if round % 4 == 0 { 0 } else { 2 }, true);
        }
        let chances = survival.chances(&Survival::default(), 1.0, 4, 0);
        assert!((chances[0].mean - 0.75).abs() < 0.05, "{chances:?}");
        assert!(chances[1].mean > 0.9 && chances[2].mean < 0.2, "{chances:?}");
        assert!(chances[3].variance > chances[0].variance, "nobody saw the fourth: {chances:?}");
    }

    #[test]
    fn the_newest_text_counts_most() {
        let mut survival = Survival::default();
        (0..300).for_each(|_| survival.round(3, false));
        (0..64).for_each(|_| survival.round(0, true));
        assert!(survival.chances(&Survival::default(), 1.0, 1, 0)[0].mean < 0.2);
    }

    #[test]
    fn a_clipped_block_refuses_nothing() {
        let mut survival = Survival::default();
        (0..50).for_each(|_| survival.round(1, false));
        assert!(survival.chances(&Survival::default(), 1.0, 2, 0)[1].mean > 0.8, "guessed from the first");
    }

    #[test]
    fn tokens_and_their_slopes() {
        let chances = [0.5, 0.5, 0.8].map(|mean| Chance { mean, variance: 0.0 });
        let (tokens, slopes) = expected_tokens(&chances, 4);
        assert!((tokens - (1.0 + 0.5 + 0.25 + 0.2)).abs() < 1e-12);
        assert!((slopes[0] - 1.9).abs() < 1e-12 && (slopes[2] - 0.25).abs() < 1e-12, "{slopes:?}");
        assert_eq!(expected_tokens(&chances, 1), (1.0, vec![]));
    }
}
