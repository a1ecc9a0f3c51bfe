//! What is known of a pair on a machine, across requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::{
    account::Account,
    confidence::Calibration,
    curve::{Cost, Curve, Learned, Slope},
    survival::Survival,
};

/// The target's forward, deciding and committing, by rows.
const VERIFY: Slope = Slope { mean: 0.35, deviation: 0.3 };
/// The drafter, by proposals.
const DRAFT: Slope = Slope { mean: 0.15, deviation: 0.15 };
/// What a drafter's round is thought to cost before it ran, in classic rounds.
const UNKNOWN_DRAFT: f64 = 0.6;
/// What observing a row is thought to cost before it was done, in prompt rows of the target.
const UNKNOWN_OBSERVE: f64 = 0.05;

/// Requests that are served classically from their start before what is known is forgotten. The trial that follows costs the
/// account's start at most, so less than a thousandth of what so many requests of ten tokens take.
const DECLINES: usize = 256;

/// Costs and acceptance of a pair on a machine. All times are handed in, in seconds.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub(crate) verify: Curve,
    pub(crate) draft: Curve,
    pub(crate) survival: Survival,
    pub(crate) account: Account,
    pub(crate) confidence: Calibration,
    /// Seconds of observing a row, when many come together.
    observe: Option<f64>,
    /// Seconds of a prompt's row in the target.
    prefill: Option<f64>,
    /// Rounds of width 1 that were measured.
    pub(crate) classic_rounds: usize,
    /// Requests that were declined since the last one that was let through.
    declined: usize,
}

/// [`Evidence`] as it is kept in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    verify: Option<Learned>,
    draft: Option<Learned>,
    survival: Survival,
    account: Account,
    observe: Option<f64>,
    classic_rounds: usize,
    #[serde(default)]
    declined: usize,
    /// Absent from files of earlier versions.
    #[serde(default)]
    confidence: Calibration,
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            verify: Curve::new(VERIFY),
            draft: Curve::new(DRAFT),
            survival: Survival::default(),
            account: Account::default(),
            confidence: Calibration::default(),
            observe: None,
            prefill: None,
            classic_rounds: 0,
            declined: 0,
        }
    }
}

impl Evidence {
    /// A forward of the target over `rows` decode rows of all sequences together, with deciding and committing them.
    pub fn verified(&mut self, rows: usize, seconds: f64) {
        self.verify.measure(rows, seconds);
        self.classic_rounds += usize::from(rows == 1);
        self.draft.assume(UNKNOWN_DRAFT * self.classic());
    }

    /// A drafter's round of `proposals` tokens for one sequence, observing the rows of the round before included.
    pub fn drafted(&mut self, proposals: usize, seconds: f64) {
        self.draft.measure(proposals, seconds);
    }

    /// `rows` rows of a prompt, or of a parked stretch, were observed at once.
    pub fn observed(&mut self, rows: usize, seconds: f64) {
        // Few rows cost a call, not rows.
        if rows >= 16 {
            average(&mut self.observe, seconds / rows as f64);
        }
    }

    /// `rows` rows of a prompt went through the target.
    pub fn prefilled(&mut self, rows: usize, seconds: f64) {
        if rows >= 16 {
            average(&mut self.prefill, seconds / rows as f64);
        }
    }

    /// Seconds of the target for `rows` decode rows together, as the machine runs now.
    pub fn verify_seconds(&self, rows: usize) -> f64 {
        self.verify.cost(rows).seconds
    }

    /// Seconds of the drafter for `proposals` of one sequence.
    pub fn draft_seconds(&self, proposals: usize) -> f64 {
        if proposals == 0 { 0.0 } else { self.draft.cost(proposals).seconds }
    }

    /// Seconds of observing `rows` rows at once.
    pub fn observe_seconds(&self, rows: usize) -> f64 {
        let unknown = || self.prefill.unwrap_or(0.3 * self.classic()) * UNKNOWN_OBSERVE;
        rows as f64 * self.observe.unwrap_or_else(unknown)
    }

    /// Seconds of a classic round.
    pub(crate) fn classic(&self) -> f64 {
        self.verify.cost(1).seconds
    }

    pub(crate) fn verify_cost(&self, rows: usize) -> Cost {
        self.verify.cost(rows)
    }

    /// A request is to be served classically, since nothing can pay in it. Nothing is learned from such requests, so after
    /// many of them what is known is forgotten, and this one may try: what was learned in one bad hour must not hold for good.
    /// Gives whether the request is declined.
    pub(crate) fn declines(&mut self) -> bool {
        self.declined += 1;
        if self.declined <= DECLINES {
            return true;
        }
        // Times and what they led to; what is known of the drafter's proposals stays.
        let Self { survival, confidence, .. } = std::mem::take(self);
        (self.survival, self.confidence) = (survival, confidence);
        false
    }

    /// A request that may speculate began.
    pub(crate) fn lets_through(&mut self) {
        self.declined = 0;
    }

    pub(crate) fn kept(&self) -> Kept {
        Kept {
            verify: self.verify.learned(),
            draft: self.draft.learned(),
            survival: self.survival.clone(),
            account: self.account,
            observe: self.observe,
            classic_rounds: self.classic_rounds,
            declined: self.declined,
            confidence: self.confidence.clone(),
        }
    }

    /// Evidence that goes on from a file; what is not sound in it counts as absent.
    pub(crate) fn from_kept(kept: Kept) -> Self {
        let curve = |slope, learned: Option<Learned>| {
            learned.map_or_else(|| Curve::new(slope), |learned| Curve::from_learned(slope, &learned))
        };
        let verify = curve(VERIFY, kept.verify);
        if !verify.is_measured() || !kept.survival.is_sound() || !kept.account.is_sound() {
            return Self::default();
        }
        let confidence = Some(kept.confidence).filter(Calibration::is_sound).unwrap_or_default();
        let observe = kept.observe.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
        let (survival, account, classic_rounds) = (kept.survival, kept.account, kept.classic_rounds);
        let mut evidence = Self {
            verify,
            draft: curve(DRAFT, kept.draft),
            survival,
            account,
            confidence,
            observe,
            prefill: None,
            classic_rounds,
            declined: kept.declined,
        };
        evidence.draft.assume(UNKNOWN_DRAFT * evidence.classic());
        evidence
    }
}

/// A mean that forgets, deaf to times more than twice too long.
fn average(mean: &mut Option<f64>, seconds: f64) {
    if seconds.is_finite() && seconds > 0.0 {
        let before = mean.unwrap_or(seconds);
        *mean = Some(before + 0.3 * (seconds.min(2.0 * before) - before));
    }
}

/// Evidence that the requests of a pair share.
#[derive(Clone, Debug, Default)]
pub struct SharedEvidence(Arc<Mutex<Evidence>>);

impl SharedEvidence {
    /// Shares `evidence`.
    pub fn new(evidence: Evidence) -> Self {
        Self(Arc::new(Mutex::new(evidence)))
    }

    /// The evidence. Counters stay sound whoever panicked while holding it.
    pub fn lock(&self) -> MutexGuard<'_, Evidence> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
