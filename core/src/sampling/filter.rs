//! Top-k, top-p, min-p: which ids are kept.
//!
//! All three keep a prefix of the ranking (logit down, id up) of softmax(l/T), so together they keep a prefix: the `k`
//! best ids; of these the shortest prefix whose mass, relative to theirs, is at least `p` (f64 running sum); of these the
//! ids at least `min_p` times as probable as the best. The best id always stays.
//!
//! A prefix is known by its last id, so the kept ids are never listed and no row is sorted.

use mlxcel_kernels::simd::{LANES, Simd};
use mlxcel_kernels::{dispatch, isa};

use crate::sampling::scan::{BLOCK, Ranked, Scan};
use crate::sampling::settings::SamplingSettings;
use crate::sampling::weight::{Softmax, exps};

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

/// Parts of a range of exponents that a search for a running sum tells apart.
const BUCKETS: usize = 1024;

/// A search for a running sum sorts this many ids at most.
const SORTED: usize = 256;

/// From about this many ids on, another look at the row is cheaper than selecting among them.
const CROWD: f64 = 8192.0;

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
    // Most prefixes end well before the first depth; the second one holds all that has a weight.
    let mut buckets = Buckets::new(softmax, 16.0);
    let (mass, mut masses) = buckets.masses(row);
    let target = top_p * mass;
    let mut reached = reach(&masses, 0.0, target);
    if reached.is_none() {
        buckets = Buckets::new(softmax, 88.0);
        masses = buckets.masses(row).1;
        reached = reach(&masses, 0.0, target);
    }
    let (mut bucket, mut before) = reached?;
    if masses[bucket] > CROWD * buckets.lightest(bucket) {
        let inside = Buckets { within: Some(bucket), ..buckets };
        // Sums of other orders round otherwise, so the target may not be reached inside.
        if let Some(inner) = reach(&inside.masses(row).1, before, target) {
            ((bucket, before), buckets) = (inner, inside);
        }
    }
    buckets.members(row, bucket, ids);
    last_of_mass(ids, before, target, softmax)
}

/// The bucket in which the running sum of `masses`, begun at `before`, reaches `target`, and the sum in front of it.
fn reach(masses: &[f64; BUCKETS], mut before: f64, target: f64) -> Option<(usize, f64)> {
    for (bucket, mass) in masses.iter().enumerate() {
        if before + mass >= target {
            return Some((bucket, before));
        }
        before += mass;
    }
    None
}

/// Ids by their exponent, in [`BUCKETS`] equal parts from 0 down to a depth, or of one of those parts. An id of a lower
/// bucket ranks before all ids of a higher one. What lies outside has the number [`BUCKETS`].
#[derive(Clone, Copy)]
struct Buckets {
    softmax: Softmax,
    /// Buckets a unit of the exponent, negative.
    scale: f32,
    /// The bucket whose parts these are.
    within: Option<usize>,
}

/// Sums by bucket, and one for each lane that is outside. Ids take turns with two of them, so that a sum waits less often
/// for the one before.
type Sums = [[f64; BUCKETS + LANES]; 2];

impl Buckets {
    fn new(softmax: Softmax, depth: f32) -> Self {
        Self { softmax, scale: -(BUCKETS as f32) / depth, within: None }
    }

    /// Less than any weight in `bucket`.
    fn lightest(&self, bucket: usize) -> f64 {
        ((bucket as f64 + 1.0) / self.scale as f64).exp()
    }

    /// The bucket of each of 16 exponents, as a float.
    #[inline(always)]
    fn of<S: Simd>(&self, s: S, exponents: S::F) -> S::F {
        const LAST: f32 = BUCKETS as f32;
        let place = s.min(s.mul(exponents, s.splat(self.scale)), s.splat(LAST));
        let bucket = s.to_f32(s.to_i32(place));
        let Some(within) = self.within else { return bucket };
        let within = s.splat(within as f32);
        // From -1/2 to 1/2. Rounding keeps the order of the differences, and the factor is a power of two.
        let part = s.add(s.mul(s.sub(place, within), s.splat(LAST)), s.splat(LAST / 2.0));
        let part = s.to_f32(s.to_i32(s.min(s.max(part, s.splat(0.0)), s.splat(LAST - 1.0))));
        s.select(s.eq(bucket, within), part, s.splat(LAST))
    }

    /// The mass of the row and of each bucket, in one pass.
    #[expect(clippy::large_stack_arrays, reason = "16 kB, once a row")]
    fn masses(&self, row: Scan<'_>) -> (f64, [f64; BUCKETS]) {
        let mut sums: Sums = [[0.0; BUCKETS + LANES]; 2];
        let mut lanes = [0.0; LANES];
        dispatch!(isa(), |s| {
            let (blocks, rest) = row.logits.as_chunks::<BLOCK>();
            for block in blocks {
                self.add(s, block, &mut lanes, &mut sums);
            }
            self.add(s, &padded(rest), &mut lanes, &mut sums);
        });
        let [even, odd] = sums;
        (lanes.iter().sum(), std::array::from_fn(|bucket| even[bucket] + odd[bucket]))
    }

    #[inline(always)]
    fn add<S: Simd>(&self, s: S, block: &[f32; BLOCK], lanes: &mut [f64; LANES], sums: &mut Sums) {
        let outside = s.splat(BUCKETS as f32);
        let by_lane = s.load(&std::array::from_fn(|lane| (BUCKETS + lane) as f32));
        let (mut weights, mut buckets) = ([0.0; BLOCK], [0; BLOCK]);
        let vectors = weights.as_chunks_mut::<LANES>().0.iter_mut().zip(buckets.as_chunks_mut::<LANES>().0);
        for (logits, (weights, buckets)) in block.as_chunks::<LANES>().0.iter().zip(vectors) {
            let exponents = self.softmax.exponents(s, logits);
            s.store(weights, exps(s, exponents));
            for lane in 0..LANES {
                lanes[lane] += weights[lane] as f64;
            }
            let of = self.of(s, exponents);
            s.store_i(buckets, s.to_i32(s.select(s.eq(of, outside), by_lane, of)));
        }
        if buckets.iter().filter(|bucket| **bucket == buckets[0]).count() == BLOCK {
            // A flat row: one after the other, each sum would wait for the one before.
            let mut eight = [0.0_f64; 8];
            for weights in weights.as_chunks::<8>().0 {
                for i in 0..8 {
                    eight[i] += weights[i] as f64;
                }
            }
            sums[0][buckets[0] as usize] += eight.iter().sum::<f64>();
            return;
        }
        for i in (0..BLOCK).step_by(2) {
            sums[0][buckets[i] as usize] += weights[i] as f64;
            sums[1][buckets[i + 1] as usize] += weights[i + 1] as f64;
        }
    }

    /// Writes the ids of one bucket to `ids`, lowest id first.
    fn members(&self, row: Scan<'_>, bucket: usize, ids: &mut Vec<Ranked>) {
        dispatch!(isa(), |s| {
            let wanted = s.splat(bucket as f32);
            for (first, part) in (0..).step_by(LANES).zip(row.logits.chunks(LANES)) {
                let logits = s.load_partial(part, f32::NEG_INFINITY);
                let of = self.of(s, self.softmax.exponents_of(s, logits));
                if s.any(s.eq(of, wanted)) {
                    let mut buckets = [0.0; LANES];
                    s.store(&mut buckets, of);
                    for ((id, &logit), of) in (first..).zip(part).zip(buckets) {
                        if of == bucket as f32 {
                            ids.push(Ranked::new(id, logit));
                        }
                    }
                }
            }
        });
    }
}

/// A block, the last one filled up with logits that have no weight.
#[inline(always)]
fn padded(logits: &[f32]) -> [f32; BLOCK] {
    let mut block = [f32::NEG_INFINITY; BLOCK];
    block[..logits.len()].copy_from_slice(logits);
    block
}

/// The id at which the running sum over the ranking of `ids`, begun at `sum`, reaches `target`; the last id if none does.
fn last_of_mass(mut ids: &mut [Ranked], mut sum: f64, target: f64, softmax: Softmax) -> Option<Ranked> {
    let weight = |id: &Ranked| softmax.weight(id.logit());
    // Equal logits come in order.
    while ids.len() > SORTED && !ids.is_sorted() {
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
    let mut last = (f32::NAN, 0.0);
    let reaches = ids.iter().find(|id| {
        if id.logit() != last.0 {
            last = (id.logit(), weight(id));
        }
        sum += last.1;
        sum >= target
    });
    reaches.or(ids.last()).copied()
}
