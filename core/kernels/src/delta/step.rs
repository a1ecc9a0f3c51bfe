//! The recurrence of one value head.

use super::{DeltaRows, DeltaShape};
use crate::norm::sum_of_squares;
use crate::parts::Parts;
use crate::simd::Simd;

/// Added to the sum of squares of a key or query.
const EPS: f32 = 1e-6;

/// One value head of a block.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) shape: DeltaShape,
    pub(super) rows: DeltaRows<'a>,
    pub(super) count: usize,
    pub(super) index: usize,
    /// `[rows, Hv, Dv]`.
    pub(super) out: Option<&'a Parts<'a, f32>>,
}

impl Head<'_> {
    /// Lanes are value dimensions: a group of columns of the state `[Dk, Dv]` stays in the cache for all rows, and no sum
    /// crosses lanes. How many columns a group has changes no bit.
    #[inline(always)]
    pub(super) fn run<S: Simd>(self, s: S, from: Option<&[f32]>, state: &mut [f32]) {
        if let (0, Some(from)) = (self.count, from) {
            return state.copy_from_slice(from);
        }
        let mut vectors = vec![0.0; 2 * self.shape.key_dim];
        let mut column = 0;
        while column < self.shape.value_dim {
            column += if S::REGISTERS >= 32 && self.shape.value_dim - column >= 64 {
                self.columns::<S, 4>(s, column, from, state, &mut vectors)
            } else {
                self.columns::<S, 1>(s, column, from, state, &mut vectors)
            };
        }
    }

    /// All rows for `16 · N` columns; returns how many that are. `vectors` is room for k̂ and q̂.
    #[inline(always)]
    fn columns<S: Simd, const N: usize>(
        &self,
        s: S,
        column: usize,
        from: Option<&[f32]>,
        state: &mut [f32],
        vectors: &mut [f32],
    ) -> usize {
        let DeltaShape { key_heads, value_heads, key_dim, value_dim } = self.shape;
        let key_head = self.index / (value_heads / key_heads);
        for row in 0..self.count {
            let qkv = &self.rows.qkv[row * self.shape.qkv_width()..(row + 1) * self.shape.qkv_width()];
            let (q, rest) = qkv.split_at(key_heads * key_dim);
            let (k, v) = rest.split_at(key_heads * key_dim);
            let (unit_k, unit_q) = vectors.split_at_mut(key_dim);
            unit(s, &k[key_head * key_dim..(key_head + 1) * key_dim], 1.0, unit_k);
            unit(s, &q[key_head * key_dim..(key_head + 1) * key_dim], 1.0 / (key_dim as f32).sqrt(), unit_q);
            let v = &v[self.index * value_dim + column..self.index * value_dim + column + 16 * N];
            let gate = row * value_heads + self.index;
            let (alpha, beta) = (s.splat(self.rows.alpha[gate]), s.splat(self.rows.beta[gate]));

            let before = if row == 0 { from } else { None };
            let read = match before {
                Some(before) => recall::<S, N>(s, before, value_dim, column, unit_k),
                None => recall::<S, N>(s, state, value_dim, column, unit_k),
            };
            let mut write = read;
            for (write, v) in write.iter_mut().zip(v.as_chunks::<16>().0) {
                // β (v - α Sᵀ k̂): the decayed state is read without being formed.
                *write = s.mul(beta, s.fma(s.neg(alpha), *write, s.load(v)));
            }

            let mut out = [[s.splat(0.0); N]; 2];
            for d in 0..key_dim {
                let (k, q) = (s.splat(unit_k[d]), s.splat(unit_q[d]));
                let at = d * value_dim + column..d * value_dim + column + 16 * N;
                for n in 0..N {
                    let old = match before {
                        Some(before) => lane(s, before, at.start + 16 * n),
                        None => lane(s, state, at.start + 16 * n),
                    };
                    let new = s.fma(k, write[n], s.mul(alpha, old));
                    out[d % 2][n] = s.fma(new, q, out[d % 2][n]);
                    s.store(&mut state[at.clone()].as_chunks_mut::<16>().0[n], new);
                }
            }
            if let Some(parts) = self.out {
                let start = (row * value_heads + self.index) * value_dim + column;
                // SAFETY: one job writes a value head, one group of columns after the other.
                let part = unsafe { parts.part(start..start + 16 * N) };
                for (n, part) in part.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                    s.store(part, s.add(out[0][n], out[1][n]));
                }
            }
        }
        16 * N
    }
}

/// Sᵀ k̂ for `16 · N` columns; even and odd key dimensions apart.
#[inline(always)]
fn recall<S: Simd, const N: usize>(s: S, state: &[f32], width: usize, column: usize, k: &[f32]) -> [S::F; N] {
    let mut acc = [[s.splat(0.0); N]; 2];
    for (row, k) in state.chunks_exact(2 * width).zip(k.as_chunks::<2>().0) {
        for odd in 0..2 {
            let k = s.splat(k[odd]);
            let row = &row[odd * width + column..odd * width + column + 16 * N];
            for (acc, row) in acc[odd].iter_mut().zip(row.as_chunks::<16>().0) {
                *acc = s.fma(s.load(row), k, *acc);
            }
        }
    }
    let mut sum = acc[0];
    for (sum, odd) in sum.iter_mut().zip(acc[1]) {
        *sum = s.add(*sum, odd);
    }
    sum
}

/// 16 values from `at` on.
#[inline(always)]
fn lane<S: Simd>(s: S, x: &[f32], at: usize) -> S::F {
    s.load_partial(&x[at..at + 16], 0.0)
}

/// `out = x · factor / sqrt(Σ x² + 1e-6)`.
#[inline(always)]
fn unit<S: Simd>(s: S, x: &[f32], factor: f32, out: &mut [f32]) {
    let r = s.splat(factor / (sum_of_squares(s, x) + EPS).sqrt());
    out.copy_from_slice(x);
    crate::math::apply(
        s,
        out,
        #[inline(always)]
        |x| s.mul(x, r),
    );
}
