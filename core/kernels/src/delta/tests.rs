//! The delta rule against f64, and the same bits for blocks, replays and single rows.

use super::{DeltaRows, DeltaShape, gated_norm, gates, step};
use crate::testing::{close, noise, same, ways};
use crate::{Exec, Heads};

/// Seeded inputs of `rows` rows.
struct Case {
    shape: DeltaShape,
    rows: usize,
    qkv: Vec<f32>,
    alpha: Vec<f32>,
    beta: Vec<f32>,
}

impl Case {
    fn new(shape: DeltaShape, rows: usize) -> Self {
        let gate = |seed| noise(seed, rows * shape.value_heads).iter().map(|v| 0.5 + 0.49 * v).collect();
        let qkv = noise(1, rows * shape.qkv_width());
        Self { shape, rows, qkv, alpha: gate(2), beta: gate(3) }
    }

    fn part(&self, rows: std::ops::Range<usize>) -> DeltaRows<'_> {
        let (width, heads) = (self.shape.qkv_width(), self.shape.value_heads);
        DeltaRows {
            qkv: &self.qkv[rows.start * width..rows.end * width],
            alpha: &self.alpha[rows.start * heads..rows.end * heads],
            beta: &self.beta[rows.start * heads..rows.end * heads],
        }
    }

    /// Output and final state from a zero state, in blocks of `block` rows, two state buffers in turn.
    fn run(&self, exec: &Exec, block: usize) -> (Vec<f32>, Vec<f32>) {
        let mut committed = vec![0.0; self.shape.state_len()];
        let mut next = vec![f32::NAN; self.shape.state_len()];
        let mut out = vec![f32::NAN; self.rows * self.shape.out_width()];
        let mut row = 0;
        for out in out.chunks_mut(block * self.shape.out_width()) {
            let end = (row + block).min(self.rows);
            step(exec, self.shape, self.part(row..end), Some(&committed), &mut next, Some(out));
            std::mem::swap(&mut committed, &mut next);
            row = end;
        }
        (out, committed)
    }

    /// The recurrence in f64, decay, read, write, read out.
    fn reference(&self) -> (Vec<f64>, Vec<f64>) {
        let DeltaShape { key_heads, value_heads, key_dim, value_dim } = self.shape;
        let mut state = vec![0.0; self.shape.state_len()];
        let mut out = Vec::new();
        for row in 0..self.rows {
            let qkv: Vec<f64> = self.qkv[row * self.shape.qkv_width()..][..self.shape.qkv_width()]
                .iter()
                .map(|&v| v as f64)
                .collect();
            for head in 0..value_heads {
                let key_head = head / (value_heads / key_heads);
                let unit = |x: &[f64]| {
                    let r = 1.0 / (x.iter().map(|v| v * v).sum::<f64>() + 1e-6).sqrt();
                    x.iter().map(|v| v * r).collect::<Vec<_>>()
                };
                let q = unit(&qkv[key_head * key_dim..][..key_dim]);
                let k = unit(&qkv[(key_heads + key_head) * key_dim..][..key_dim]);
                let v = &qkv[2 * key_heads * key_dim + head * value_dim..][..value_dim];
                let gate = row * value_heads + head;
                let (alpha, beta) = (self.alpha[gate] as f64, self.beta[gate] as f64);
                let state = &mut state[head * key_dim * value_dim..][..key_dim * value_dim];
                for x in state.iter_mut() {
                    *x *= alpha;
                }
                for c in 0..value_dim {
                    let read: f64 = (0..key_dim).map(|d| state[d * value_dim + c] * k[d]).sum();
                    for d in 0..key_dim {
                        state[d * value_dim + c] += k[d] * beta * (v[c] - read);
                    }
                    let o: f64 = (0..key_dim).map(|d| state[d * value_dim + c] * q[d]).sum();
                    out.push(o / (key_dim as f64).sqrt());
                }
            }
        }
        let mut lanes = vec![0.0; state.len()];
        for (i, x) in state.into_iter().enumerate() {
            let (head, d, c) = (i / value_dim / key_dim, i / value_dim % key_dim, i % value_dim);
            lanes[self.shape.state_index(head, d, c)] = x;
        }
        (out, lanes)
    }
}

/// The epsilon belongs to the sum of squares, not to their mean: it tells in keys and queries near zero.
#[test]
fn keys_near_zero_are_divided_by_the_root_of_their_sum() {
    let mut case = Case::new(DeltaShape::new(2, 4, 32, 32), 9);
    let (width, keys) = (case.shape.qkv_width(), 2 * 2 * 32);
    for row in case.qkv.chunks_exact_mut(width) {
        row[..keys].iter_mut().for_each(|value| *value *= 1e-3);
    }
    let (out, state) = case.reference();
    for exec in ways() {
        let got = case.run(&exec, 4);
        close(&got.0, &out, 2e-6, "output");
        close(&got.1, &state, 2e-6, "state");
    }
}

#[test]
fn matches_f64_and_has_one_set_of_bits() {
    for (hk, hv, dk, dv, rows) in
        [(1, 1, 32, 32, 20), (2, 6, 48, 80, 9), (2, 4, 128, 128, 40), (1, 2, 2, 16, 5)]
    {
        let case = Case::new(DeltaShape::new(hk, hv, dk, dv), rows);
        let (out, state) = case.reference();
        let mut first = None;
        for exec in ways() {
            let got = case.run(&exec, rows);
            close(&got.0, &out, 2e-6, "output");
            close(&got.1, &state, 2e-6, "state");
            let first = first.get_or_insert_with(|| got.clone());
            same(&got.0, &first.0, "output, ways");
            same(&got.1, &first.1, "state, ways");
        }
    }
}

#[test]
fn blocks_of_any_size_give_the_bits_of_one_row_at_a_time() {
    let case = Case::new(DeltaShape::new(2, 4, 32, 80), 512);
    let (out, state) = case.run(&ways()[0], 1);
    for exec in ways() {
        for block in (1..=17).chain([512]) {
            let got = case.run(&exec, block);
            same(&got.0, &out, "output");
            same(&got.1, &state, "state");
        }
    }
}

#[test]
fn a_replay_of_kept_rows_gives_the_state_of_decoding_them() {
    let case = Case::new(DeltaShape::new(1, 2, 32, 64), 16);
    for exec in ways() {
        let committed = noise(9, case.shape.state_len());
        let mut one_by_one = committed.clone();
        for kept in 0..=16 {
            let mut next = vec![f32::NAN; committed.len()];
            let mut out = vec![0.0; 16 * case.shape.out_width()];
            step(&exec, case.shape, case.part(0..16), Some(&committed), &mut next, Some(&mut out));
            step(&exec, case.shape, case.part(0..kept), Some(&committed), &mut next, None);
            same(&next, &one_by_one, &format!("{kept} kept"));
            if kept < 16 {
                step(&exec, case.shape, case.part(kept..kept + 1), None, &mut one_by_one, None);
            }
        }
    }
}

#[test]
fn non_finite_values_stay_in_their_head_and_after_their_row() {
    let mut case = Case::new(DeltaShape::new(2, 2, 32, 32), 8);
    let exec = &ways()[0];
    let clean = case.run(exec, 8).0;
    case.qkv[5 * case.shape.qkv_width() + 64 + 3] = f32::NAN;
    case.qkv[5 * case.shape.qkv_width() + 64 + 4] = f32::INFINITY;
    let (out, _) = case.run(exec, 8);
    for (i, (a, b)) in out.chunks(32).zip(clean.chunks(32)).enumerate() {
        let (row, head) = (i / 2, i % 2);
        if row >= 5 && head == 0 {
            assert!(a.iter().all(|v| v.is_nan()), "row {row}");
        } else {
            same(a, b, "other rows and heads");
        }
    }
}

#[test]
fn gates_match_f64() {
    for heads in [4, 16, 20] {
        let rows = 33;
        let joined: Vec<f32> = noise(1, rows * 2 * heads).iter().map(|v| v * 8.0).collect();
        let (a_log, dt_bias) = (noise(2, heads), noise(3, heads));
        let b = Heads::columns(&joined, 2 * heads, 0, 1, heads);
        let a = Heads::columns(&joined, 2 * heads, heads, 1, heads);
        let (mut want_alpha, mut want_beta) = (Vec::new(), Vec::new());
        for row in 0..rows {
            for h in 0..heads {
                let a = a.head(row, 0)[h] as f64 + dt_bias[h] as f64;
                want_alpha.push((-(a_log[h] as f64).exp() * a.exp().ln_1p()).exp());
                want_beta.push(1.0 / (1.0 + (-b.head(row, 0)[h] as f64).exp()));
            }
        }
        let mut first = None;
        for exec in ways() {
            let (mut alpha, mut beta) = (vec![0.0; rows * heads], vec![0.0; rows * heads]);
            gates(&exec, a, b, &a_log, &dt_bias, &mut alpha, &mut beta);
            close(&alpha, &want_alpha, 2e-6, "alpha");
            close(&beta, &want_beta, 3e-7, "beta");
            let (first_alpha, first_beta) = first.get_or_insert_with(|| (alpha.clone(), beta.clone()));
            same(&alpha, first_alpha, "alpha, ways");
            same(&beta, first_beta, "beta, ways");
        }
    }
}

#[test]
fn the_gated_norm_matches_f64_row_by_row() {
    let (heads, dim, rows) = (3, 48, 200);
    let (o, z, w) = (noise(1, rows * heads * dim), noise(2, rows * heads * dim), noise(3, dim));
    let mut want = Vec::new();
    for (o, z) in o.chunks(dim).zip(z.chunks(dim)) {
        let mean = o.iter().map(|&v| (v as f64).powi(2)).sum::<f64>() / dim as f64;
        let value = |i: usize| o[i] as f64 / (mean + 1e-6_f32 as f64).sqrt() * w[i] as f64;
        let silu = |z: f32| z as f64 / (1.0 + (-z as f64).exp());
        want.extend((0..dim).map(|i| value(i) * silu(z[i])));
    }
    for exec in ways() {
        let mut all = o.clone();
        gated_norm(&exec, &mut all, Heads::packed(&z, heads, dim), &w, 1e-6);
        close(&all, &want, 4e-7, "gated norm");
        for count in 1..=17 {
            let n = count * heads * dim;
            let mut some = o[..n].to_vec();
            gated_norm(&exec, &mut some, Heads::packed(&z[..n], heads, dim), &w, 1e-6);
            same(&some, &all[..n], "rows");
        }
    }
}
