//! Top-k, top-p, min-p: which ids are kept.
//!
//! All three keep a prefix of the ranking (logit down, id up) of softmax(l/T), so together they keep a prefix: the `k`
//! best ids; of these the shortest prefix whose mass, relative to theirs, is at least `p` (f64 running sum); of these the
//! ids at least `min_p` times as probable as the best. The best id always stays.
//!
//! A prefix is known by its last id, so the kept ids are never listed and no row is sorted.

use crate::sampling::scan::{BLOCK, Ranked, Scan};
use crate::sampling::settings::SamplingSettings;
use crate::sampling::weight::{Softmax, mass};

/// The filters of a request with a temperature above 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    temperature: f32,
    top_k: usize,
    top_p: f64,
    min_p: f64,
}

/// The kept ids of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// No kept id ranks behind this one.
    last: Ranked,
    /// No kept id has a logit below this one.
    floor: f32,
    /// Kept ids weigh at least this.
    min_p: f64,
    softmax: Softmax,
}

impl Kept {
    /// Every id of a row with a finite logit.
    pub(crate) const fn all() -> Self {
        let softmax = Softmax { best: 0.0, temperature: 1.0 };
        Self { last: Ranked::LAST, floor: f32::MIN, min_p: 0.0, softmax }
    }

    /// Whether an id of the row is kept.
    pub(crate) fn holds(&self, id: Ranked) -> bool {
        id <= self.last && (self.min_p == 0.0 || self.softmax.weight(id.logit()) >= self.min_p)
    }

    /// No kept id has a logit below this one.
    pub(crate) const fn floor(&self) -> f32 {
        self.floor
    }
}

/// Parts of the range of weights that a search for a running sum tells apart at first.
const BUCKETS: usize = 1024;

/// A search for a running sum sorts this many ids at most.
const SORTED: usize = 256;

impl Filter {
    /// The filters of `settings`, or `None` if they keep everything (at temperature 0 the best id wins anyway).
    pub(crate) fn new(settings: &SamplingSettings) -> Option<Self> {
        let &SamplingSettings { temperature, top_k, top_p, min_p, .. } = settings;
        let any = top_k > 0 || top_p < 1.0 || min_p > 0.0;
        (any && temperature > 0.0).then_some(Self { temperature, top_k, top_p, min_p })
    }

    /// The kept ids of `row`, which has a finite logit. `ids` and `workspace` are overwritten.
    pub(crate) fn keep(&self, row: Scan<'_>, ids: &mut Vec<Ranked>, workspace: &mut Vec<f32>) -> Kept {
        let softmax = Softmax { best: row.best, temperature: self.temperature };
        ids.clear();
        let last = if (1..row.logits.len()).contains(&self.top_k) {
            row.best_ids(self.top_k, ids, workspace);
            if self.top_p < 1.0 {
                ids.sort_unstable();
                let total: f64 = ids.iter().map(|id| softmax.weight(id.logit())).sum();
                last_of_mass(ids, 0.0, self.top_p * total, softmax)
            } else {
                ids.iter().max().copied()
            }
        } else if self.top_p < 1.0 {
            last_of_row(row, self.top_p, softmax, ids)
        } else {
            None
        }
        .unwrap_or(Ranked::LAST);
        let lightest = if self.min_p > 0.0 { softmax.logit_at((0.5 * self.min_p).ln()) } else { f32::MIN };
        Kept { last, floor: last.logit().max(lightest), min_p: self.min_p, softmax }
    }
}

/// The last id of the shortest prefix of `row` with a share of at least `top_p` of its mass; `None` if only rounding keeps
/// the whole row from it.
fn last_of_row(row: Scan<'_>, top_p: f64, softmax: Softmax, ids: &mut Vec<Ranked>) -> Option<Ranked> {
    let target = top_p * mass(row.logits, softmax);
    // Most prefixes end well before the second depth; the last one holds all that has a weight.
    [8.0, 24.0, 88.0].into_iter().find_map(|depth| {
        let buckets = Buckets { softmax, scale: -(BUCKETS as f32) / depth };
        // A little deeper, so that rounding leaves out no id of a bucket.
        let floor = softmax.logit_at(-1.01 * depth as f64).max(f32::MIN);
        let mut before = 0.0;
        let reaches = buckets.masses(row, floor).iter().position(|mass| {
            let reached = before + mass >= target;
            before += if reached { 0.0 } else { *mass };
            reached
        })?;
        buckets.members(row, floor, reaches as u32, ids);
        last_of_mass(ids, before, target, softmax)
    })
}

/// Ids by their exponent, in [`BUCKETS`] equal parts from 0 down to the depth of the search. An id of a lower bucket ranks
/// before all ids of a higher one. What is deeper has the number [`BUCKETS`].
struct Buckets {
    softmax: Softmax,
    scale: f32,
}

impl Buckets {
    #[inline(always)]
    fn of(&self, logit: f32) -> u32 {
        ((self.softmax.exponent(logit) * self.scale) as u32).min(BUCKETS as u32)
    }

    /// The mass of each bucket; `floor` is a logit that none of their ids is below.
    fn masses(&self, row: Scan<'_>, floor: f32) -> [f64; BUCKETS] {
        let mut masses = [0.0; BUCKETS + 1];
        for (_, block) in row.blocks(floor) {
            let (mut weights, mut buckets) = ([0.0; BLOCK], [0; BLOCK]);
            for ((weight, bucket), &logit) in weights.iter_mut().zip(&mut buckets).zip(block) {
                *weight = self.softmax.weight(logit);
                *bucket = self.of(logit);
            }
            for (&bucket, &weight) in buckets[..block.len()].iter().zip(&weights) {
                masses[bucket as usize] += weight;
            }
        }
        std::array::from_fn(|bucket| masses[bucket])
    }

    /// Writes the ids of one bucket to `ids`.
    fn members(&self, row: Scan<'_>, floor: f32, bucket: u32, ids: &mut Vec<Ranked>) {
        for (first, block) in row.blocks(floor) {
            let members = (first..).zip(block).filter(|(_, logit)| self.of(**logit) == bucket);
            ids.extend(members.map(|(id, &logit)| Ranked::new(id, logit)));
        }
    }
}

/// The id at which the running sum over the ranking of `ids`, begun at `sum`, reaches `target`; the last id if none does.
fn last_of_mass(mut ids: &mut [Ranked], mut sum: f64, target: f64, softmax: Softmax) -> Option<Ranked> {
    let weight = |id: &Ranked| softmax.weight(id.logit());
    while ids.len() > SORTED {
        let half = ids.len() / 2;
        ids.select_nth_unstable(half);
        let (upper, lower) = ids.split_at_mut(half);
        let mass: f64 = upper.iter().map(weight).sum();
        if sum + mass >= target {
            ids = upper;
        } else {
            sum += mass;
            ids = lower;
        }
    }
    ids.sort_unstable();
    let reaches = ids.iter().find(|id| {
        sum += weight(id);
        sum >= target
    });
    reaches.or(ids.last()).copied()
}
