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
    /// Blocks of 16 value dimensions stay in the cache for all rows, and no sum crosses lanes. How many blocks go together
    /// changes no bit.
    #[inline(always)]
    pub(super) fn run<S: Simd>(self, s: S, from: Option<&[f32]>, state: &mut [f32]) {
        if let (0, Some(from)) = (self.count, from) {
            return state.copy_from_slice(from);
        }
        let key_dim = self.shape.key_dim;
        let mut vectors = vec![[0.0; 2]; key_dim];
        let state = state.as_chunks_mut::<16>().0;
        let from = from.map(|from| from.as_chunks::<16>().0);
        let blocks = self.shape.value_dim / 16;
        let mut block = 0;
        while block < blocks {
            let n = if S::REGISTERS >= 32 && blocks - block >= 4 { 4 } else { 1 };
            let part = block * key_dim..(block + n) * key_dim;
            let (from, state) = (from.map(|from| &from[part.clone()]), &mut state[part]);
            if S::REGISTERS >= 32 && n == 4 {
                self.blocks::<S, 4>(s, block, from, state, &mut vectors);
            } else {
                self.blocks::<S, 1>(s, block, from, state, &mut vectors);
            }
            block += n;
        }
    }

    /// All rows for `N` blocks `[N, Dk, 16]` of the state. `vectors` is room for k̂ and q̂, `[Dk, 2]`.
    #[inline(always)]
    fn blocks<S: Simd, const N: usize>(
        &self,
        s: S,
        block: usize,
        from: Option<&[[f32; 16]]>,
        state: &mut [[f32; 16]],
        vectors: &mut [[f32; 2]],
    ) {
        let DeltaShape { key_heads, value_heads, key_dim, value_dim } = self.shape;
        let key_head = self.index / (value_heads / key_heads);
        for row in 0..self.count {
            let qkv = &self.rows.qkv[row * self.shape.qkv_width()..(row + 1) * self.shape.qkv_width()];
            let (q, rest) = qkv.split_at(key_heads * key_dim);
            let (k, v) = rest.split_at(key_heads * key_dim);
            let part = key_head * key_dim..(key_head + 1) * key_dim;
            unit_vectors(s, &k[part.clone()], &q[part], vectors);
            let v = &v[self.index * value_dim + block * 16..self.index * value_dim + (block + N) * 16];
            let gate = row * value_heads + self.index;
            let (alpha, beta) = (self.rows.alpha[gate], self.rows.beta[gate]);

            let before = if row == 0 { from } else { None };
            let read = recall::<S, N>(s, before.unwrap_or(state), vectors);
            let mut write = read;
            for (write, v) in write.iter_mut().zip(v.as_chunks::<16>().0) {
                // β (v - α Sᵀ k̂): the decayed state is read without being formed.
                *write = s.mul(s.splat(beta), s.fma(s.splat(-alpha), *write, s.load(v)));
            }
            let out = match before {
                Some(before) => advance::<S, N>(s, Some(before), state, vectors, alpha, write),
                None => advance::<S, N>(s, None, state, vectors, alpha, write),
            };
            if let Some(parts) = self.out {
                let start = (row * value_heads + self.index) * value_dim + block * 16;
                // SAFETY: one job writes a value head, one group of blocks after the other.
                let part = unsafe { parts.part(start..start + 16 * N) };
                for (part, out) in part.as_chunks_mut::<16>().0.iter_mut().zip(out) {
                    s.store(part, out);
                }
            }
        }
    }
}

/// Sᵀ k̂ of `N` blocks; even and odd key dimensions apart.
#[inline(always)]
fn recall<S: Simd, const N: usize>(s: S, state: &[[f32; 16]], vectors: &[[f32; 2]]) -> [S::F; N] {
    let dim = vectors.len();
    let state: [&[[f32; 16]]; N] = std::array::from_fn(|n| &state[n * dim..(n + 1) * dim]);
    let mut acc = [[s.splat(0.0); 2]; N];
    for d in 0..dim / 2 {
        for n in 0..N {
            acc[n][0] = s.fma(s.load(&state[n][2 * d]), s.splat(vectors[2 * d][0]), acc[n][0]);
            acc[n][1] = s.fma(s.load(&state[n][2 * d + 1]), s.splat(vectors[2 * d + 1][0]), acc[n][1]);
        }
    }
    sums(s, acc)
}

/// S ← α S + k̂ ⊗ write, read from `before` where given; returns Sᵀ q̂ of the new state, even and odd key dimensions apart.
#[inline(always)]
fn advance<S: Simd, const N: usize>(
    s: S,
    before: Option<&[[f32; 16]]>,
    state: &mut [[f32; 16]],
    vectors: &[[f32; 2]],
    alpha: f32,
    write: [S::F; N],
) -> [S::F; N] {
    let dim = vectors.len();
    let alpha = s.splat(alpha);
    let mut acc = [[s.splat(0.0); 2]; N];
    for d in 0..dim / 2 {
        for odd in 0..2 {
            let [k, q] = vectors[2 * d + odd];
            for n in 0..N {
                let at = n * dim + 2 * d + odd;
                let old = match before {
                    Some(before) => s.load(&before[at]),
                    None => s.load(&state[at]),
                };
                let new = s.fma(s.splat(k), write[n], s.mul(alpha, old));
                acc[n][odd] = s.fma(new, s.splat(q), acc[n][odd]);
                s.store(&mut state[at], new);
            }
        }
    }
    sums(s, acc)
}

#[inline(always)]
fn sums<S: Simd, const N: usize>(s: S, acc: [[S::F; 2]; N]) -> [S::F; N] {
    let mut sums = [s.splat(0.0); N];
    for (sum, [even, odd]) in sums.iter_mut().zip(acc) {
        *sum = s.add(even, odd);
    }
    sums
}

/// `[k̂, q̂]` per dimension: k / sqrt(Σ k² + 1e-6) and q / sqrt(Σ q² + 1e-6) / sqrt(Dk).
#[inline(always)]
fn unit_vectors<S: Simd>(s: S, k: &[f32], q: &[f32], vectors: &mut [[f32; 2]]) {
    let k_scale = 1.0 / (sum_of_squares(s, k) + EPS).sqrt();
    let q_scale = 1.0 / (k.len() as f32).sqrt() / (sum_of_squares(s, q) + EPS).sqrt();
    for ((vector, k), q) in vectors.iter_mut().zip(k).zip(q) {
        *vector = [k * k_scale, q * q_scale];
    }
}
