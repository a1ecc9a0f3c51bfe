//! Which width a round has.

use super::{
    Evidence, SharedEvidence, WidthSet,
    account::Price,
    curve::Cost,
    cut::{ConfidenceUse, Cutter},
    survival::{Chance, Survival, expected_tokens, freshness},
};
use crate::Width;

/// Rounds of width 1 before anything else is tried: what speculation is measured against.
const CLASSIC_FIRST: usize = 2;
/// Wider rounds after which classic decoding is measured again: at first, and at most. Its cost is what all gains are
/// measured against, so it is never a guess for long.
const CHECK_AFTER: (usize, usize) = (16, 128);
/// The widest block before any proposal was accepted; then, up to twice as wide as what was seen.
const FIRST: usize = 4;
/// How many standard errors two rates may lie apart and still be worth a comparison.
const WITHIN: f64 = 2.0;
/// How many a cost may lie off before a request stops keeping what the drafter would need.
const HOPELESS: f64 = 3.0;
/// Classic rounds in a row after which the question is asked less often, and then every so many.
const SETTLED: (usize, usize) = (8, 4);
/// Tokens that an answer is expected to go on for, when it may be longer.
const HORIZON: usize = 64;

/// Chooses the widths of one request.
#[derive(Clone, Debug)]
pub struct WidthPolicy {
    evidence: SharedEvidence,
    /// Widths up to the ceiling.
    widths: WidthSet,
    /// Acceptance in this request.
    survival: Survival,
    /// How far acceptance in earlier requests, and in this one before it was parked, is believed.
    trust: f64,
    /// The last round.
    last: Width,
    /// Whether the last round was a trial against parking.
    trial: bool,
    /// Rounds of width 1 in a row.
    parked: usize,
    /// Wider rounds since classic decoding was measured, and how many there may be.
    unchecked: (usize, usize),
    /// Classic rounds still to come of such a check.
    checking: usize,
    cutter: Cutter,
}

/// Where a request stands before a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// Rows that the block may have: tokens that may still be emitted, and room in the context.
    pub room: usize,
    /// Tokens that may still be emitted.
    pub remaining: usize,
    /// Tokens emitted.
    pub emitted: usize,
    /// Committed rows that the drafter has not seen.
    pub backlog: usize,
}

/// What a round did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Rows of the block.
    pub width: Width,
    /// Proposals that the drafter was asked for.
    pub drafted: usize,
    /// Proposals that the target agreed with: those that were emitted, and of a block that was cut also the first one left
    /// out, if it is the token that the last row gave.
    pub accepted: usize,
    /// Whether the next proposal was looked at and refused; false if all were accepted, or the answer ended before it.
    pub refused: bool,
    /// Tokens emitted.
    pub emitted: usize,
}

/// A width with what it is expected to give.
#[derive(Clone, Debug)]
struct Candidate {
    width: Width,
    tokens: f64,
    /// d tokens by chance.
    slopes: Vec<f64>,
    seconds: f64,
    verify: Cost,
    draft: Option<Cost>,
}

impl Candidate {
    fn rate(&self) -> f64 {
        self.tokens / self.seconds
    }
}

impl WidthPolicy {
    /// A policy for one request, with widths of `widths` up to `ceiling`.
    pub fn new(evidence: SharedEvidence, widths: &WidthSet, ceiling: Width) -> Self {
        let widths = widths.filter(|width| width <= ceiling);
        Self {
            evidence,
            widths,
            survival: Survival::default(),
            trust: 1.0,
            last: Width::ONE,
            trial: false,
            parked: 0,
            unchecked: (0, CHECK_AFTER.0),
            checking: 0,
            cutter: Cutter::default(),
        }
    }

    /// The policy with another use of the drafter's confidence.
    #[must_use]
    pub fn with_confidence(mut self, mode: ConfidenceUse) -> Self {
        self.cutter.mode = mode;
        self
    }

    /// Leaves out the widths that `keep` refuses.
    pub fn keep(&mut self, keep: impl Fn(Width) -> bool) {
        self.widths = self.widths.filter(keep);
    }

    /// The widest block that may come.
    pub fn widest(&self) -> Width {
        self.widths.widest()
    }

    /// The evidence.
    pub fn evidence(&self) -> &SharedEvidence {
        &self.evidence
    }

    /// The width of the next round.
    pub fn choose(&mut self, at: &Situation) -> Width {
        let shared = self.evidence.clone();
        let mut evidence = shared.lock();
        let (width, trial, rate) = if self.widest() == Width::ONE {
            (Width::ONE, false, None)
        } else if self.checking > 0 {
            self.checking -= 1;
            (Width::ONE, self.trial, None)
        } else {
            self.pick(&mut evidence, at)
        };
        self.cutter.open(rate);
        self.unchecked.0 = if width > Width::ONE { self.unchecked.0 + 1 } else { 0 };
        if self.unchecked.0 >= self.unchecked.1 {
            // The first of them finds the caches of the wider rounds, and is not measured.
            self.checking = 2;
            self.unchecked.1 = (2 * self.unchecked.1).min(CHECK_AFTER.1);
        }
        match (width, trial) {
            (Width::ONE, true) => {}
            (Width::ONE, _) if self.trial && at.room > 1 => evidence.account.failed(),
            (Width::ONE, _) | (_, true) => {}
            _ => evidence.account.succeeded(),
        }
        (self.last, self.trial) = (width, trial);
        width
    }

    /// Counts rounds in a row without the drafter; a block that was cut to one row is none of them. What was known before them counts less for good: a text that has turned would be
    /// judged by what it was.
    fn goes_on(&mut self, drafted: bool) {
        if !drafted {
            self.parked += 1;
            return;
        }
        let parked = std::mem::take(&mut self.parked);
        // A look at classic decoding is no park.
        if parked > SETTLED.0 {
            self.survival.fade(freshness(parked));
            self.trust *= freshness(parked);
        }
    }

    /// A width, whether it is a trial against parking, and the rate that its rows must beat if it is none.
    fn pick(&self, evidence: &mut Evidence, at: &Situation) -> (Width, bool, Option<f64>) {
        let settled = self.parked > SETTLED.0 && !self.parked.is_multiple_of(SETTLED.1);
        if evidence.classic_rounds < CLASSIC_FIRST || at.room < 2 || settled {
            return (Width::ONE, false, None);
        }
        let options = self.options(evidence, at.room);
        let classic = &options[0];
        let catch_up = self.catch_up(evidence, at);
        let pays = |option: &&Candidate| pays(classic, option, catch_up, at);
        let chances = self.chances(evidence);
        // A gain that may be none is a trial too: it ends when the account is empty.
        let sure = |option: &&Candidate| {
            !evidence.account.is_empty()
                || option.rate() > classic.rate() + 0.5 * error(evidence, &chances, classic, option)
        };
        let best = options
            .iter()
            .filter(pays)
            .max_by(|a, b| a.rate().total_cmp(&b.rate()))
            .filter(sure)
            .unwrap_or(classic);
        let within = |option: &&Candidate| {
            option.width != best.width
                && option.rate() + WITHIN * error(evidence, &chances, best, option) > best.rate()
        };
        let rounds = |seconds: f64| seconds / classic.seconds;
        if best.width == Width::ONE {
            // The most to be learned for what it costs.
            let value = |option: &Candidate| {
                let hoped = option_value(evidence, &chances, best, option) - best.rate();
                hoped / (price(classic, option, catch_up).round.max(0.0) + 0.5)
            };
            let under_way = self.last > Width::ONE;
            let trial = options
                .iter()
                .filter(within)
                .filter(|option| evidence.account.affords(price(classic, option, catch_up), 0.0, under_way))
                .max_by(|a, b| value(a).total_cmp(&value(b)));
            return trial.map_or((Width::ONE, false, None), |option| (option.width, true, None));
        }
        let price = |option: &Candidate| rounds(option.seconds - option.tokens / best.rate());
        let trial = options
            .iter()
            .filter(within)
            .filter(|option| evidence.account.affords_spare(price(option)))
            .max_by(|a, b| {
                let value = |option| option_value(evidence, &chances, best, option);
                value(a).total_cmp(&value(b))
            });
        match trial {
            Some(trial) => {
                let (width, price, rate) = (trial.width, price(trial), best.rate());
                evidence.account.spend_spare(price);
                (width, false, Some(rate))
            }
            None => (best.width, false, Some(best.rate())),
        }
    }

    /// Whether no round of this request will be wider than 1, whatever is learned on the way: then nothing needs to be kept
    /// for the drafter.
    pub fn is_hopeless(&self, at: &Situation) -> bool {
        let settled = !self.parked.is_multiple_of(4 * SETTLED.1);
        let evidence = self.evidence.lock();
        if evidence.classic_rounds < CLASSIC_FIRST || self.last > Width::ONE || settled {
            return false;
        }
        let options = self.options(&evidence, at.room);
        let classic = &options[0];
        let catch_up = self.catch_up(&evidence, at);
        // All proposals accepted: text may change, costs do not.
        let sure = vec![Chance { mean: 1.0, variance: 0.0 }; self.widths.widest().proposals()];
        options[1..].iter().all(|option| {
            let price = price(classic, option, catch_up);
            let ideal =
                Candidate { tokens: option.width.rows() as f64, slopes: Vec::new(), ..option.clone() };
            let beyond = ideal.rate() + HOPELESS * error(&evidence, &sure, classic, &ideal) < classic.rate();
            beyond
                || (option.rate() < classic.rate()
                    && !evidence.account.affords(price, at.remaining as f64, false))
        })
    }

    /// Whether a request that begins is to be served classically from its start. Counts such requests: once in a while one
    /// is let through, so that what is known cannot grow stale.
    pub fn declines(&self, at: &Situation) -> bool {
        if self.options(&self.evidence.lock(), at.room).len() == 1 {
            // No block fits, whatever is known.
            return true;
        }
        let hopeless = self.is_hopeless(at);
        let mut evidence = self.evidence.lock();
        if hopeless {
            return evidence.declines();
        }
        evidence.lets_through();
        false
    }

    /// Takes the outcome of a round. Its times go to the evidence: [`Evidence::verified`], [`Evidence::drafted`].
    pub fn round(&mut self, outcome: &Outcome) {
        self.goes_on(outcome.drafted > 0);
        let mut evidence = self.evidence.lock();
        let emitted = outcome.emitted as f64;
        let rows = outcome.width.rows();
        // The curve, not the time of this round: a disturbed round is not the width's fault.
        let seconds = evidence.verify_seconds(rows) + evidence.draft_seconds(outcome.drafted);
        let rounds = seconds / evidence.classic();
        evidence.account.earn(emitted, rounds);
        if outcome.drafted == 0 {
            return;
        }
        let chances = self.chances(&evidence);
        self.cutter.settle(&mut evidence, &chances, outcome);
        self.survival.round(outcome.accepted, outcome.refused);
        evidence.survival.remember(outcome.accepted, outcome.refused);
        evidence.account.add(emitted - rounds);
    }

    /// The drafter took in rows of a prompt or of a parked stretch.
    pub fn observed(&mut self, rows: usize, seconds: f64) {
        let mut evidence = self.evidence.lock();
        evidence.observed(rows, seconds);
        if evidence.verify.is_measured() {
            let lost = seconds / evidence.classic();
            evidence.account.add(-lost);
        }
    }

    /// The prompt went through the target.
    pub fn prefilled(&mut self, rows: usize, seconds: f64) {
        let mut evidence = self.evidence.lock();
        evidence.prefilled(rows, seconds);
        if evidence.verify.is_measured() {
            let rounds = seconds / evidence.classic();
            evidence.account.earn_prompt(rounds);
            let catch_up = evidence.observe_seconds(rows) / evidence.classic();
            evidence.account.begin(catch_up);
        }
    }

    /// Someone else chose the width of the next round, from the cost of a whole tick.
    pub fn chosen(&mut self, width: Width) {
        (self.last, self.trial) = (width, false);
        self.cutter.open(None);
    }

    /// Whether the drafter is to say how sure it is of the next round's proposals.
    pub fn asks_confidence(&self) -> bool {
        self.cutter.asks()
    }

    /// How many rows of a block of `whole` rows are checked, whose proposals the drafter gives these chances: a width of the
    /// set that `may` run, or all. `None` if its confidence is not to decide.
    pub fn cut(&mut self, whole: Width, confidence: &[f32], may: impl Fn(Width) -> bool) -> Option<Width> {
        let widths = self.widths.iter().filter(|width| may(*width));
        self.cutter.cut(&self.evidence.lock(), widths, whole, confidence)
    }

    /// The widths that may be used, up to the ceiling.
    pub fn widths(&self) -> &WidthSet {
        &self.widths
    }

    /// Tokens that a block of `width` rows is expected to give.
    pub fn expected_tokens(&self, width: Width) -> f64 {
        expected_tokens(&self.chances(&self.evidence.lock()), width.rows()).0
    }

    /// The widths that a round may have, ascending from 1, with the tokens expected of each: only 1 if the rest of the
    /// answer does not make up for what the drafter would have to be shown first.
    pub(super) fn tokens_by_width(&self, evidence: &Evidence, at: &Situation) -> Vec<(Width, f64)> {
        let options = self.options(evidence, at.room);
        let (classic, catch_up) = (&options[0], self.catch_up(evidence, at));
        let worth = |option: &&Candidate| catch_up == 0.0 || pays(classic, option, catch_up, at);
        options.iter().filter(worth).map(|option| (option.width, option.tokens)).collect()
    }

    fn chances(&self, evidence: &Evidence) -> Vec<Chance> {
        self.survival.chances(&evidence.survival, self.trust, self.widths.widest().proposals(), self.parked)
    }

    /// Seconds until the drafter has seen what it missed; what the last round left is part of a round's cost.
    fn catch_up(&self, evidence: &Evidence, at: &Situation) -> f64 {
        let usual = if self.last > Width::ONE { self.last.rows() } else { 0 };
        evidence.observe_seconds(at.backlog.saturating_sub(usual))
    }

    /// The widths that fit, the first of them 1.
    fn options(&self, evidence: &Evidence, room: usize) -> Vec<Candidate> {
        let chances = self.chances(evidence);
        // What lies far beyond all that was seen is a guess upon guesses.
        let seen = self.survival.depth(&evidence.survival) + 1;
        let next = self.widths.iter().map(Width::rows).find(|rows| *rows > seen).unwrap_or(seen);
        let room = room.min(FIRST.max(2 * seen).max(next));
        let fits = self.widths.iter().filter(|width| *width == Width::ONE || width.rows() <= room);
        fits.map(|width| {
            let (tokens, slopes) = expected_tokens(&chances, width.rows());
            let verify = evidence.verify_cost(width.rows());
            let draft = (width > Width::ONE).then(|| evidence.draft.cost(width.proposals()));
            let seconds = verify.seconds + draft.map_or(0.0, |draft| draft.seconds);
            Candidate { width, tokens, slopes, seconds, verify, draft }
        })
        .collect()
    }
}

/// Whether what the answer gains with blocks of `option` makes up for showing the drafter what it missed.
fn pays(classic: &Candidate, option: &Candidate, catch_up: f64, at: &Situation) -> bool {
    let horizon = at.remaining.min(HORIZON.max(at.emitted)) as f64;
    let gain = horizon * (1.0 / classic.rate() - 1.0 / option.rate());
    option.width == Width::ONE || gain > 1.5 * catch_up
}

/// What a round of `option` instead of classic rounds costs, in classic rounds.
fn price(classic: &Candidate, option: &Candidate, catch_up: f64) -> Price {
    let round = option.seconds / classic.seconds - option.tokens;
    Price { round, catch_up: catch_up / classic.seconds }
}

/// Standard error of the difference of two rates, as far as rounds of `option` would lower it: what rounds of `best` teach
/// anyway does not count.
fn error(evidence: &Evidence, chances: &[Chance], best: &Candidate, option: &Candidate) -> f64 {
    let taught = best.width.proposals();
    let survival: f64 = chances
        .iter()
        .zip(&option.slopes)
        .skip(taught)
        .map(|(chance, slope)| (slope / option.seconds).powi(2) * chance.variance)
        .sum();
    let by = |part: fn(&Candidate) -> Option<Cost>| {
        let mut direction = [0.0; _];
        for (option, sign) in [(option, 1.0), (best, -1.0)] {
            if let Some(cost) = part(option) {
                let factor = -sign * option.rate() * cost.seconds / option.seconds;
                direction.iter_mut().zip(&cost.slopes).for_each(|(to, slope)| *to += factor * slope);
            }
        }
        direction
    };
    let verify = evidence.verify.variance(&by(|option| Some(option.verify)));
    let draft = evidence.draft.variance(&by(|option| option.draft));
    (survival + verify + draft).sqrt()
}

/// The rate that is hoped for.
fn option_value(evidence: &Evidence, chances: &[Chance], best: &Candidate, option: &Candidate) -> f64 {
    option.rate() + WITHIN * error(evidence, chances, best, option)
}
