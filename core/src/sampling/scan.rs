//! One look at a row: where its large logits are.
//!
//! Loops over a whole row run in [`dispatch`], which compiles them for the widest vectors the machine has. They use
//! operations that are exact everywhere, so the vectors change no bit.

use mlxcel_kernels::simd::{LANES, Simd};
use mlxcel_kernels::{dispatch, isa};

/// A row of logits ranks by (logit down, id up): the smaller key is the better id. NaN must not occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ranked(u64);

impl Ranked {
    /// Every finite logit of every id ranks before it, or is it.
    pub(crate) const LAST: Self = Self::new(u32::MAX, f32::MIN);

    pub(crate) const fn new(id: u32, logit: f32) -> Self {
        // −0 is made +0, so that the order of the bits is the order of the numbers.
        let bits = (logit + 0.0).to_bits();
        let ascending = if bits >> 31 == 0 { bits ^ 0x8000_0000 } else { !bits };
        Self(((!ascending) as u64) << 32 | id as u64)
    }

    pub(crate) const fn id(self) -> u32 {
        self.0 as u32
    }

    pub(crate) const fn logit(self) -> f32 {
        let ascending = !((self.0 >> 32) as u32);
        f32::from_bits(if ascending >> 31 == 1 { ascending ^ 0x8000_0000 } else { !ascending })
    }
}

/// Logits that share one maximum in a [`Scan`].
pub(crate) const BLOCK: usize = 64;

/// A row of logits with the maximum of each block of [`BLOCK`] ids.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan<'a> {
    /// `[columns]`, free of NaN and +∞.
    pub(crate) logits: &'a [f32],
    /// `[columns / BLOCK]`, rounded up.
    pub(crate) maxima: &'a [f32],
    /// The largest logit; −∞ if there is no finite one.
    pub(crate) best: f32,
}

/// The lowest id whose logit is NaN or +∞.
pub(crate) fn first_unusable(logits: &[f32]) -> Option<usize> {
    let (blocks, _) = logits.as_chunks::<BLOCK>();
    let first = BLOCK * dispatch!(isa(), |s| usable_blocks(s, blocks));
    logits[first..]
        .iter()
        .position(|logit| logit.is_nan() || *logit == f32::INFINITY)
        .map(|offset| first + offset)
}

/// Blocks before the first that has an unusable logit.
#[inline(always)]
fn usable_blocks<S: Simd>(s: S, blocks: &[[f32; BLOCK]]) -> usize {
    for (i, block) in blocks.iter().enumerate() {
        let mut unusable = s.splat(0.0);
        for logits in block.as_chunks::<LANES>().0 {
            let usable = s.lt(s.load(logits), s.splat(f32::INFINITY));
            unusable = s.select(usable, unusable, s.splat(1.0));
        }
        if s.any(s.lt(s.splat(0.0), unusable)) {
            return i;
        }
    }
    blocks.len()
}

impl<'a> Scan<'a> {
    /// Looks at `logits` once; `maxima` is where the block maxima are kept.
    pub(crate) fn new(logits: &'a [f32], maxima: &'a mut Vec<f32>) -> Self {
        let (blocks, rest) = logits.as_chunks::<BLOCK>();
        maxima.clear();
        maxima.resize(blocks.len(), 0.0);
        dispatch!(isa(), |s| {
            for (block, largest) in blocks.iter().zip(&mut *maxima) {
                *largest = maximum(s, block);
            }
            if !rest.is_empty() {
                maxima.push(maximum(s, rest));
            }
        });
        let best = dispatch!(isa(), |s| maximum(s, maxima));
        Self { logits, maxima, best }
    }

    /// Each block with its first id and its maximum.
    pub(crate) fn blocks_with_maxima(self) -> impl Iterator<Item = (u32, &'a [f32], f32)> {
        let firsts = (0..).step_by(BLOCK);
        firsts
            .zip(self.logits.chunks(BLOCK))
            .zip(self.maxima)
            .map(|((first, block), max)| (first, block, *max))
    }

    /// Blocks whose maximum is at least `threshold`, each with its first id.
    pub(crate) fn blocks(self, threshold: f32) -> impl Iterator<Item = (u32, &'a [f32])> {
        let large = self.blocks_with_maxima().filter(move |(_, _, maximum)| *maximum >= threshold);
        large.map(|(first, block, _)| (first, block))
    }

    /// Appends every id with a finite logit of at least `threshold` to `out`, lowest id first.
    pub(crate) fn at_least(self, threshold: f32, out: &mut Vec<Ranked>) {
        let threshold = threshold.max(f32::MIN);
        for (first, block) in self.blocks(threshold) {
            for (id, &logit) in (first..).zip(block) {
                if logit >= threshold {
                    out.push(Ranked::new(id, logit));
                }
            }
        }
    }

    /// Appends the `k` best ids with finite logits to `out`, in no particular order; fewer if there are fewer.
    ///
    /// `workspace` is overwritten.
    pub(crate) fn best_ids(self, k: usize, out: &mut Vec<Ranked>, workspace: &mut Vec<f32>) {
        let start = out.len();
        // k blocks have a maximum of at least the k-th largest maximum, so at least k logits reach it.
        let threshold = if (1..=self.maxima.len()).contains(&k) {
            workspace.clear();
            workspace.extend_from_slice(self.maxima);
            *workspace.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1
        } else {
            f32::MIN
        };
        self.at_least(threshold, out);
        let found = &mut out[start..];
        if found.len() > k {
            if k > 0 {
                found.select_nth_unstable(k - 1);
            }
            out.truncate(start + k);
        }
    }
}

/// The largest of `values`, which are free of NaN; −∞ if there are none.
#[inline(always)]
fn maximum<S: Simd>(s: S, values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut largest = s.load_partial(rest, f32::NEG_INFINITY);
    for chunk in chunks {
        largest = s.max(s.load(chunk), largest);
    }
    s.reduce_max(largest)
}
