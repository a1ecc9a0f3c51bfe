//! Top-k, top-p, min-p: which ids are kept.
//!
//! All three keep a prefix of the ranking (logit down, id up) of softmax(l/T), so together they keep a prefix: the `k`
//! best ids; of these the shortest prefix whose mass, relative to theirs, is at least `p` (f64 running sum); of these the
//! ids at least `min_p` times as probable as the best. The best id always stays.

use crate::sampling::scan::{LANES, Ranked, Scan};
use crate::sampling::settings::SamplingSettings;
use crate::sampling::weight::weight;

/// The filters of a request with a temperature above 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    temperature: f32,
    top_k: usize,
    top_p: f64,
    min_p: f64,
}

/// Below this many ids a selection sorts.
const SORTED: usize = 256;

impl Filter {
    /// The filters of `settings`, or `None` if they keep everything (at temperature 0 the best id wins anyway).
    pub(crate) fn new(settings: &SamplingSettings) -> Option<Self> {
        let &SamplingSettings { temperature, top_k, top_p, min_p, .. } = settings;
        let any = top_k > 0 || top_p < 1.0 || min_p > 0.0;
        (any && temperature > 0.0).then_some(Self { temperature, top_k, top_p, min_p })
    }

    /// Writes the kept ids of `row` to `kept`, in no particular order. `workspace` is overwritten.
    pub(crate) fn keep(&self, row: Scan<'_>, kept: &mut Vec<Ranked>, workspace: &mut Vec<f32>) {
        kept.clear();
        let weight = |logit: f32| weight((logit - row.best) / self.temperature) as f64;
        let total = if (1..row.logits.len()).contains(&self.top_k) {
            row.best_ids(self.top_k, kept, workspace);
            kept.sort_unstable();
            kept.iter().map(|id| weight(id.logit())).sum()
        } else if self.top_p < 1.0 {
            let total = self.mass(row);
            // Ids lighter than (1 − p)/n of the total weigh less than 1 − p of it together, so the prefix has none of
            // them. Half of that leaves room for rounding.
            let lightest = 0.5 * (1.0 - self.top_p) * total / row.logits.len() as f64;
            row.at_least(self.logit_of(row.best, lightest), kept);
            total
        } else {
            row.at_least(self.logit_of(row.best, 0.5 * self.min_p), kept);
            0.0
        };
        if self.top_p < 1.0 {
            shortest_prefix(kept, self.top_p * total, weight);
        }
        if self.min_p > 0.0 {
            kept.retain(|id| weight(id.logit()) >= self.min_p);
        }
    }

    /// The logit that weighs `weight`, or less.
    fn logit_of(&self, best: f32, weight: f64) -> f32 {
        (best as f64 + self.temperature as f64 * weight.ln()) as f32
    }

    /// Σ of all weights: lane j sums the ids ≡ j (mod [`LANES`]) in order, then the lanes are summed in order.
    fn mass(&self, row: Scan<'_>) -> f64 {
        let mut lanes = [0.0_f64; LANES];
        for chunk in row.logits.chunks(LANES) {
            for (lane, logit) in lanes.iter_mut().zip(chunk) {
                *lane += weight((logit - row.best) / self.temperature) as f64;
            }
        }
        lanes.iter().sum()
    }
}

/// Shortens `ids` to the shortest prefix of their ranking with a mass of at least `target`.
fn shortest_prefix(ids: &mut Vec<Ranked>, target: f64, weight: impl Fn(f32) -> f64 + Copy) {
    let mass = |ids: &[Ranked]| ids.iter().map(|id| weight(id.logit())).sum::<f64>();
    // ids[..low] are in the prefix and weigh `sum`; ids[high..] are not in it.
    let (mut low, mut high, mut sum) = (0, ids.len(), 0.0);
    while high - low > SORTED {
        let half = (high - low) / 2;
        ids[low..high].select_nth_unstable(half);
        let upper = mass(&ids[low..low + half]);
        if sum + upper >= target {
            high = low + half;
        } else {
            sum += upper;
            low += half;
        }
    }
    ids[low..high].sort_unstable();
    for index in low..high {
        sum += weight(ids[index].logit());
        if sum >= target {
            ids.truncate(index + 1);
            return;
        }
    }
    ids.truncate(high);
}
