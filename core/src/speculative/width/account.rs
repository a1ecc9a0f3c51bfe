//! What trying out may cost.

use serde::{Deserialize, Serialize};

/// What a pair may lose before anything is known of it, in classic rounds.
const START: f64 = 2.4;
/// What every emitted token adds.
const INTEREST: f64 = 0.014;
/// What a prompt adds, as a share of its time.
const PROMPT_INTEREST: f64 = 0.01;
/// The most that is kept.
const CAP: f64 = 6.0;
/// How far a trial that is under way may overdraw the account, and how far it can be overdrawn at all.
const CREDIT: f64 = 0.5;
const FLOOR: f64 = -0.5;
/// By what the price of a trial grows after two in a row that failed.
const DEARER: f64 = 1.4;
/// What a new request may spend at once after failed trials, besides catching up.
const CARRIED: f64 = 0.5;

/// An account in classic rounds (the time of a token without speculation). Every token earns a little. Rounds that gave
/// fewer tokens than classic decoding in the same time are paid from it, and those that gave more are paid into it; when it
/// is empty the request is parked. So a pair for which speculation loses costs the start and the interest at most,
/// whatever the estimates say. A trial after a failed one has to wait until there is more: pauses grow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// Against classic decoding.
    balance: f64,
    /// Against the best width, for trials among widths that all gain.
    spare: f64,
    /// Trials in a row that ended in a park.
    failures: u32,
}

/// What a trial costs, in classic rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Price {
    /// A round, beyond what its tokens are worth.
    pub(crate) round: f64,
    /// Observing what the drafter has missed.
    pub(crate) catch_up: f64,
}

impl Default for Account {
    fn default() -> Self {
        Self { balance: START, spare: START, failures: 0 }
    }
}

impl Account {
    /// A round of any width emitted tokens in the time of `rounds` classic rounds.
    pub(crate) fn earn(&mut self, tokens: f64, rounds: f64) {
        self.add(INTEREST * tokens);
        self.spare = (self.spare + INTEREST * rounds).min(CAP);
    }

    /// A prompt took the time of `rounds` classic rounds.
    pub(crate) fn earn_prompt(&mut self, rounds: f64) {
        self.add(PROMPT_INTEREST * rounds);
    }

    /// A speculative round won or lost against classic decoding.
    pub(crate) fn add(&mut self, rounds: f64) {
        self.balance = (self.balance + rounds).clamp(FLOOR, CAP);
    }

    /// What a trial among gaining widths is expected to lose.
    pub(crate) fn spend_spare(&mut self, rounds: f64) {
        self.spare -= rounds.max(0.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.balance <= 0.0
    }

    /// Whether a trial instead of classic rounds can be paid, with `later` tokens yet to be emitted. One that is under way
    /// may go on a little longer.
    pub(crate) fn affords(&self, price: Price, later: f64, under_way: bool) -> bool {
        let dearer = if under_way || self.failures < 2 { 1.0 } else { DEARER };
        let credit = if under_way { CREDIT } else { 0.0 };
        let wanted = dearer * price.round.max(0.1) + price.catch_up;
        wanted.min(CAP) <= self.balance + INTEREST * later + credit
    }

    /// A request begins, whose drafter needs `catch_up` before its first round. Where speculation lost, savings are no
    /// reason to spend them at once.
    pub(crate) fn begin(&mut self, catch_up: f64) {
        if self.failures > 0 {
            self.balance = self.balance.min(CARRIED + catch_up);
        }
    }

    pub(crate) fn affords_spare(&self, rounds: f64) -> bool {
        rounds <= self.spare
    }

    pub(crate) fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Whether the figures could have come about.
    pub(crate) fn is_sound(&self) -> bool {
        [self.balance, self.spare].iter().all(|value| (-CAP..=CAP).contains(value))
    }
}
