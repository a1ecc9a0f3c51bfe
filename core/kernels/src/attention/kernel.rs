//! One tile of queries against one key/value head.

use std::cell::Cell;
use std::ops::Range;

use super::buffer::{KvBuffer, TILE};
use super::storage::Stored;
use super::{Mask, Simd};
use crate::{Heads, math, parts::Parts};

/// 16 scores or weights on a cache line of their own.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Lanes([f32; TILE]);

/// Buffers that a thread keeps between calls.
#[derive(Default)]
pub(super) struct Scratch {
    /// `[tiles, R, 16]`: scores, then softmax weights.
    scores: Vec<Lanes>,
    /// `[head_dim / 2, R, 2]`: the queries of a tile, scaled by nothing.
    queries: Vec<f32>,
}

thread_local! {
    static SCRATCH: Cell<Scratch> = Cell::default();
}

impl Scratch {
    /// Lends this thread's buffers.
    pub(super) fn with(f: impl FnOnce(&mut Self)) {
        let mut scratch = SCRATCH.take();
        f(&mut scratch);
        SCRATCH.set(scratch);
    }
}

/// What all tiles of queries of one call share, and the key/value head.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) q: Heads<'a>,
    pub(super) kv: &'a KvBuffer,
    pub(super) start: usize,
    pub(super) mask: Mask,
    pub(super) scale: f32,
    /// `[rows, query heads, head_dim]`.
    pub(super) out: &'a Parts<'a, f32>,
    /// Query heads of a key/value head.
    pub(super) group: usize,
    /// The key/value head.
    pub(super) head: usize,
}

impl Job<'_> {
    /// Queries `queries` of this head, counted row by row, `group` in a row; at most 8 of them.
    #[inline(always)]
    pub(super) fn run<S: Simd, K: Stored>(self, s: S, queries: Range<usize>, scratch: &mut Scratch) {
        let mut at = queries.start;
        while at < queries.end {
            let left = queries.end - at;
            // Wide tiles only where their accumulators fit: the others are not even compiled.
            at += if S::REGISTERS >= 32 && left >= 8 {
                self.tile::<S, K, 8>(s, at, scratch)
            } else if S::REGISTERS >= 32 && left >= 6 {
                self.tile::<S, K, 6>(s, at, scratch)
            } else if S::REGISTERS >= 8 && left >= 4 {
                self.tile::<S, K, 4>(s, at, scratch)
            } else if left >= 2 {
                self.tile::<S, K, 2>(s, at, scratch)
            } else {
                self.tile::<S, K, 1>(s, at, scratch)
            };
        }
    }

    /// The row and query head of query `i`.
    #[inline(always)]
    fn place(&self, i: usize) -> (usize, usize) {
        (i / self.group, self.head * self.group + i % self.group)
    }

    /// R queries from `at` on; returns R.
    #[inline(always)]
    fn tile<S: Simd, K: Stored, const R: usize>(&self, s: S, at: usize, scratch: &mut Scratch) -> usize {
        let dim = self.q.dim();
        let seen: [Range<usize>; R] = std::array::from_fn(
            #[inline(always)]
            |r| self.mask.visible(self.start + self.place(at + r).0, self.kv.positions()),
        );
        let some = || seen.iter().filter(|seen| !seen.is_empty());
        let first = some().map(|seen| seen.start).min().unwrap_or(0);
        let end = some().map(|seen| seen.end).max().unwrap_or(0);
        let tiles = first / TILE..end.div_ceil(TILE);

        if scratch.scores.len() < tiles.len() * R {
            scratch.scores.resize(tiles.len() * R, Lanes([0.0; TILE]));
        }
        let scores = &mut scratch.scores.as_chunks_mut::<R>().0[..tiles.len()];
        scratch.queries.resize((dim * R).max(scratch.queries.len()), 0.0);
        let queries = &mut scratch.queries.as_chunks_mut::<2>().0.as_chunks_mut::<R>().0[..dim / 2];
        for r in 0..R {
            let (row, head) = self.place(at + r);
            for (pair, two) in queries.iter_mut().zip(self.q.head(row, head).as_chunks::<2>().0) {
                pair[r] = *two;
            }
        }

        let most = self.scores::<S, K, R>(s, tiles.start, &seen, queries, scores);
        let sums = weights(s, most, scores);
        let inverse: [f32; R] = std::array::from_fn(|r| if seen[r].is_empty() { 0.0 } else { 1.0 / sums[r] });

        let pairs = dim.div_ceil(32);
        let mut pair = 0;
        while pair < pairs {
            let step = if R <= 4 && S::REGISTERS >= 32 && pairs - pair >= 2 { 2 } else { 1 };
            if R <= 4 && S::REGISTERS >= 32 && step == 2 {
                self.values::<S, K, R, 2>(s, at, tiles.start, &seen, scores, inverse, pair);
            } else {
                self.values::<S, K, R, 1>(s, at, tiles.start, &seen, scores, inverse, pair);
            }
            pair += step;
        }
        R
    }

    /// Fills `scores` (-inf where a query does not see a position) and returns the greatest score of each query.
    #[inline(always)]
    fn scores<S: Simd, K: Stored, const R: usize>(
        &self,
        s: S,
        first_tile: usize,
        seen: &[Range<usize>; R],
        queries: &[[[f32; 2]; R]],
        scores: &mut [[Lanes; R]],
    ) -> [f32; R] {
        let whole_tiles = whole_tiles(seen);
        let never = s.splat(f32::NEG_INFINITY);
        let scale = s.splat(self.scale);
        let mut most = [never; R];
        for (i, scores) in scores.iter_mut().enumerate() {
            let (keys, _) = self.kv.tile(self.head, first_tile + i);
            let (mut even, mut odd) = ([s.splat(0.0); R], [s.splat(0.0); R]);
            for (pair, q) in keys.chunks_exact(K::LINES).zip(queries) {
                let [a, b] = K::pair(s, pair);
                for r in 0..R {
                    even[r] = s.fma(a, s.splat(q[r][0]), even[r]);
                    odd[r] = s.fma(b, s.splat(q[r][1]), odd[r]);
                }
            }
            let first = (first_tile + i) * TILE;
            let whole = whole_tiles.contains(&(first_tile + i));
            for r in 0..R {
                let mut score = s.mul(s.add(even[r], odd[r]), scale);
                if !whole {
                    let lanes = lanes_seen(&seen[r], first);
                    score = s.select(s.first(lanes.end), score, never);
                    score = s.select(s.first(lanes.start), never, score);
                }
                most[r] = s.max(score, most[r]);
                s.store(&mut scores[r].0, score);
            }
        }
        let mut result = [0.0; R];
        for r in 0..R {
            result[r] = s.reduce_max(most[r]);
        }
        result
    }

    /// `P` pairs of vectors of the output from `pair` on: positions in ascending order, each query only those it sees.
    #[inline(always)]
    fn values<S: Simd, K: Stored, const R: usize, const P: usize>(
        &self,
        s: S,
        at: usize,
        first_tile: usize,
        seen: &[Range<usize>; R],
        weights: &[[Lanes; R]],
        inverse: [f32; R],
        pair: usize,
    ) {
        let row_lines = self.q.dim().div_ceil(32) * K::LINES;
        let mut acc = [[[s.splat(0.0); 2]; P]; R];
        let whole_tiles = whole_tiles(seen);
        for (i, weights) in weights.iter().enumerate() {
            let (_, rows) = self.kv.tile(self.head, first_tile + i);
            let first = (first_tile + i) * TILE;
            let whole = whole_tiles.contains(&(first_tile + i));
            for (lane, row) in rows.chunks_exact(row_lines).enumerate() {
                let row = &row[pair * K::LINES..(pair + P) * K::LINES];
                let mut v = [[s.splat(0.0); 2]; P];
                for p in 0..P {
                    v[p] = K::pair(s, &row[p * K::LINES..(p + 1) * K::LINES]);
                }
                if whole {
                    for r in 0..R {
                        gather(s, &mut acc[r], v, weights[r].0[lane]);
                    }
                } else {
                    for r in 0..R {
                        if seen[r].contains(&(first + lane)) {
                            gather(s, &mut acc[r], v, weights[r].0[lane]);
                        }
                    }
                }
            }
        }
        let (dim, heads) = (self.q.dim(), self.q.heads());
        for r in 0..R {
            let (row, head) = self.place(at + r);
            let start = (row * heads + head) * dim;
            for (p, halves) in acc[r].iter().enumerate() {
                for (half, &sum) in halves.iter().enumerate() {
                    let d = (pair + p) * 32 + half * 16;
                    if d < dim {
                        // SAFETY: a query belongs to one tile of one job, so nobody else writes its part of the output.
                        let out = unsafe { self.out.part(start + d..start + (d + 16).min(dim)) };
                        let value = s.mul(sum, s.splat(inverse[r]));
                        match out.as_chunks_mut::<16>() {
                            ([full], _) => s.store(full, value),
                            _ => s.store_partial(out, value),
                        }
                    }
                }
            }
        }
    }
}

/// Turns scores into exp(score - most) in place and returns their sums.
#[inline(always)]
fn weights<S: Simd, const R: usize>(s: S, most: [f32; R], scores: &mut [[Lanes; R]]) -> [f32; R] {
    let mut sums = [s.splat(0.0); R];
    for tile in scores {
        for r in 0..R {
            let weight = math::exp(s, s.sub(s.load(&tile[r].0), s.splat(most[r])));
            sums[r] = s.add(sums[r], weight);
            s.store(&mut tile[r].0, weight);
        }
    }
    let mut result = [0.0; R];
    for r in 0..R {
        result[r] = s.reduce_add(sums[r]);
    }
    result
}

/// `acc += v · weight`.
#[inline(always)]
fn gather<S: Simd, const P: usize>(s: S, acc: &mut [[S::F; 2]; P], v: [[S::F; 2]; P], weight: f32) {
    let weight = s.splat(weight);
    for (acc, v) in acc.iter_mut().zip(v) {
        acc[0] = s.fma(v[0], weight, acc[0]);
        acc[1] = s.fma(v[1], weight, acc[1]);
    }
}

/// The tiles whose positions all queries see.
#[inline(always)]
fn whole_tiles(seen: &[Range<usize>]) -> Range<usize> {
    let start = seen.iter().map(|seen| seen.start).max().unwrap_or(0);
    let end = seen.iter().map(|seen| seen.end).min().unwrap_or(0);
    start.div_ceil(TILE)..end / TILE
}

/// The lanes of the tile that starts at position `first` which lie in `seen`.
#[inline(always)]
fn lanes_seen(seen: &Range<usize>, first: usize) -> Range<usize> {
    let start = seen.start.clamp(first, first + TILE) - first;
    let end = seen.end.clamp(first, first + TILE) - first;
    start..end.max(start)
}
