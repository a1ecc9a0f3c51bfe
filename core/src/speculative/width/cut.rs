//! Cutting the blocks of one request where the drafter is not sure enough of the next proposal.
//!
//! ```text
//! worth(width) = expected tokens(width) − rate · seconds(width)
//! ```
//!
//! `rate` is what the best width gives in a second: a row whose chance to become a token is worth less than its seconds would
//! give elsewhere is left out. Drafting is paid for by then and does not count.
//!
//! Whether to cut is learned without trying. A block that is checked whole tells what the cut one would have given; a cut
//! one, whose last row decides the token that the first left out proposal stood for, nearly tells what the whole one would
//! have given. So the gain is counted in every round, and blocks are cut from when it is beyond doubt until it no longer is.

use super::{Evidence, Outcome, survival::Chance};
use crate::Width;

/// What is made of a drafter's confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfidenceUse {
    /// Blocks are cut by it once that is seen to gain.
    #[default]
    Auto,
    /// Nobody asks for it.
    Off,
    /// Blocks are cut by it from the start.
    On,
}

/// Cuts the blocks of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Cutter {
    pub(super) mode: ConfidenceUse,
    /// Tokens per second that rows of the next block must beat; `None` for one that is not to be cut.
    rate: Option<f64>,
    /// The round under way.
    plan: Option<Plan>,
}

/// What is known of a block before it is checked.
#[derive(Clone, Debug)]
struct Plan {
    /// The drafter's own chances.
    confidence: Vec<f64>,
    whole: Width,
    cut: Width,
    rate: f64,
}

impl Cutter {
    /// Before a round: what its rows must beat, if it may be cut.
    pub(super) fn open(&mut self, rate: Option<f64>) {
        self.rate = rate;
        self.plan = None;
    }

    /// Whether the drafter is to be asked how sure it is.
    pub(super) fn asks(&self) -> bool {
        self.mode != ConfidenceUse::Off && self.rate.is_some()
    }

    /// How many rows of a block of `whole` rows are checked: one of `widths`, or all. `None` if the drafter's confidence is
    /// not to decide.
    pub(super) fn cut(
        &mut self,
        evidence: &Evidence,
        widths: impl Iterator<Item = Width>,
        whole: Width,
        confidence: &[f32],
    ) -> Option<Width> {
        self.plan = None;
        let rate = self.rate.filter(|_| self.asks())?;
        let confidence = confidence.get(..whole.proposals())?;
        if confidence.iter().any(|chance| !(0.0..=1.0).contains(chance)) {
            return None;
        }
        let confidence: Vec<f64> = confidence.iter().copied().map(f64::from).collect();
        let tokens = tokens_by_rows(confidence.iter().map(|chance| evidence.confidence.chance(*chance)));
        let worth = |width: Width| tokens[width.rows() - 1] - rate * evidence.verify_seconds(width.rows());
        let cut = widths
            .filter(|width| *width < whole)
            .chain([whole])
            .max_by(|a, b| worth(*a).total_cmp(&worth(*b)));
        let cut = cut.unwrap_or(whole);
        self.plan = Some(Plan { confidence, whole, cut, rate });
        let used = self.mode == ConfidenceUse::On || evidence.confidence.pays();
        used.then_some(cut)
    }

    /// After a round: what it says of the confidence, and of the gain of cutting by it. `chances` are those by position.
    pub(super) fn settle(&mut self, evidence: &mut Evidence, chances: &[Chance], outcome: &Outcome) {
        let Some(plan) = self.plan.take() else { return };
        let reached = outcome.accepted + usize::from(outcome.refused);
        let by_position = |i: usize| chances.get(i).map_or(0.5, |chance| chance.mean);
        for (i, confidence) in plan.confidence.iter().enumerate().take(reached) {
            evidence.confidence.seen(*confidence, i < outcome.accepted);
        }
        // Otherwise the answer ended inside the block, and nobody knows what it would have given.
        if outcome.refused || outcome.emitted == outcome.width.rows() {
            let gain = plan.gain(evidence, by_position, outcome);
            evidence.confidence.gained(gain);
        }
    }
}

impl Plan {
    /// Tokens that the cut block gains over the whole one, its rows' time counted at the rate, whichever of them ran.
    fn gain(&self, evidence: &Evidence, by_position: impl Fn(usize) -> f64, outcome: &Outcome) -> f64 {
        let known = outcome.accepted;
        let given = |width: Width| {
            // Proposals that were not reached would have survived as their positions do.
            let end = if outcome.refused { known } else { width.proposals().max(known) };
            let rest = tokens_by_rows((known..end).map(&by_position));
            known.min(width.proposals()) as f64 + rest[rest.len() - 1]
        };
        let seconds = |width: Width| evidence.verify_seconds(width.rows());
        given(self.cut) - given(self.whole) + self.rate * (seconds(self.whole) - seconds(self.cut))
    }
}

/// Tokens that 1, 2, … rows give: 1 + Σ survival.
fn tokens_by_rows(chances: impl Iterator<Item = f64>) -> Vec<f64> {
    let (mut survival, mut tokens) = (1.0, 1.0);
    let rest = chances.map(|chance| {
        survival *= chance;
        tokens += survival;
        tokens
    });
    [1.0].into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens that a second is worth elsewhere: one in 10 ms.
    const RATE: f64 = 100.0;

    fn width(rows: usize) -> Width {
        Width::new(rows).unwrap_or(Width::ONE)
    }

    /// A machine where each row costs half of the first.
    fn evidence() -> Evidence {
        let mut evidence = Evidence::default();
        for rows in [1, 2, 3, 4].repeat(100) {
            evidence.verified(rows, 0.005 + 0.005 * rows as f64);
        }
        evidence
    }

    fn cutter(mode: ConfidenceUse) -> Cutter {
        Cutter { mode, rate: Some(RATE), plan: None }
    }

    fn cut(rows: &[usize], confidence: &[f32]) -> Option<usize> {
        let widths = rows.iter().map(|rows| width(*rows));
        cutter(ConfidenceUse::On).cut(&evidence(), widths, width(4), confidence).map(Width::rows)
    }

    #[test]
    fn rows_that_are_not_worth_their_time_are_left_out() {
        assert_eq!(cut(&[1, 2, 3, 4], &[0.9, 0.1, 0.9]), Some(2));
        assert_eq!(cut(&[1, 2, 3, 4], &[0.9, 0.9, 0.9]), Some(4));
        assert_eq!(cut(&[1, 2, 3, 4], &[0.1, 0.1, 0.1]), Some(1));
        // A proposal that is unlikely may be worth it for those after it.
        assert_eq!(cut(&[1, 2, 3, 4], &[1.0, 0.45, 1.0]), Some(2));
        assert_eq!(cut(&[1, 2, 3, 4], &[1.0, 0.6, 1.0]), Some(4));
    }

    #[test]
    fn only_to_a_width_that_may_run() {
        assert_eq!(cut(&[1, 4], &[0.9, 0.1, 0.9]), Some(1));
        assert_eq!(cut(&[3], &[0.9, 0.1, 0.1]), Some(3));
        assert_eq!(cut(&[], &[0.0, 0.0, 0.0]), Some(4), "the whole block may");
        assert_eq!(cut(&[2, 8], &[1.0, 1.0, 1.0]), Some(4), "never wider");
    }

    #[test]
    fn what_is_no_chance_decides_nothing() {
        for confidence in [&[0.1, 0.1][..], &[], &[0.1, f32::NAN, 0.1], &[0.1, 0.1, 1.5], &[-0.1, 0.1, 0.1]] {
            assert_eq!(cut(&[1, 2, 3, 4], confidence), None, "{confidence:?}");
        }
        let mut off = cutter(ConfidenceUse::Off);
        assert!(!off.asks() && off.cut(&evidence(), [width(2)].into_iter(), width(4), &[0.0; 3]).is_none());
        let mut early = cutter(ConfidenceUse::Auto);
        assert!(
            early.asks() && early.cut(&evidence(), [width(2)].into_iter(), width(4), &[0.0; 3]).is_none()
        );
    }

    /// The gain of a cut from 4 rows to 2, which saves the time of a token.
    #[test]
    fn the_gain_is_the_same_whichever_block_ran() {
        let plan = Plan { confidence: vec![0.9, 0.1, 0.1], whole: width(4), cut: width(2), rate: RATE };
        let gain = |rows, accepted, refused| {
            let emitted = usize::min(accepted, rows - 1) + 1;
            let outcome = Outcome { width: width(rows), drafted: 3, accepted, refused, emitted };
            plan.gain(&evidence(), |_| 0.5, &outcome)
        };
        let close =
            |found: f64, expected: f64| assert!((found - expected).abs() < 0.05, "{found}, {expected}");
        // Refused at once, or right behind the cut: no token lost.
        for rows in [2, 4] {
            close(gain(rows, 0, true), 1.0);
            close(gain(rows, 1, true), 1.0);
        }
        // The whole block tells how many were lost; the cut one that there was one, and the rest is the positions'.
        close(gain(4, 2, true), 0.0);
        close(gain(4, 3, false), -1.0);
        close(gain(2, 2, false), -0.5);
    }
}
