//! Attention against f64, and the same bits whatever surrounds a row.

use proptest::prelude::*;

use super::{KvBuffer, KvDtype, Mask, attend};
use crate::simd::{bf16_to_f32, f32_to_bf16};
use crate::testing::{close, noise, same, ways};
use crate::{Exec, Heads, Isa};

/// Shapes and data of one case; queries, keys and values for absolute positions `0 .. positions`.
struct Case {
    query_heads: usize,
    kv_heads: usize,
    dim: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
}

impl Case {
    fn new(query_heads: usize, kv_heads: usize, dim: usize, positions: usize) -> Self {
        let q = noise(1, positions * query_heads * dim).iter().map(|v| v * 4.0).collect();
        let [k, v] = [2, 3].map(|seed| noise(seed, positions * kv_heads * dim));
        Self { query_heads, kv_heads, dim, q, k, v }
    }

    fn append(&self, kv: &mut KvBuffer, positions: std::ops::Range<usize>) {
        let width = self.kv_heads * self.dim;
        let at = positions.start * width..positions.end * width;
        let view = |x| Heads::packed(x, self.kv_heads, self.dim);
        kv.append(positions.start, view(&self.k[at.clone()]), view(&self.v[at]));
    }

    fn filled(&self, dtype: KvDtype, positions: std::ops::Range<usize>) -> KvBuffer {
        let mut kv = KvBuffer::new(self.kv_heads, self.dim, dtype);
        self.append(&mut kv, positions);
        kv
    }

    fn scale(&self) -> f32 {
        1.0 / (self.dim as f32).sqrt()
    }

    fn attend(&self, exec: &Exec, kv: &KvBuffer, rows: std::ops::Range<usize>, mask: Mask) -> Vec<f32> {
        let width = self.query_heads * self.dim;
        let q = Heads::packed(&self.q[rows.start * width..rows.end * width], self.query_heads, self.dim);
        let mut out = vec![f32::NAN; q.len()];
        attend(exec, q, kv, rows.start, mask, self.scale(), &mut out);
        out
    }

    /// The reference in f64; `round` is what storing does to a value.
    fn reference(
        &self,
        keys: std::ops::Range<usize>,
        rows: std::ops::Range<usize>,
        mask: Mask,
        round: fn(f32) -> f32,
    ) -> Vec<f64> {
        let mut out = Vec::new();
        for row in rows {
            for head in 0..self.query_heads {
                let kv_head = head / (self.query_heads / self.kv_heads);
                let at = |x: &[f32], j: usize, d: usize| {
                    round(x[(j * self.kv_heads + kv_head) * self.dim + d]) as f64
                };
                let q = &self.q[(row * self.query_heads + head) * self.dim..][..self.dim];
                let score = |j: usize| {
                    (0..self.dim).map(|d| q[d] as f64 * at(&self.k, j, d)).sum::<f64>() * self.scale() as f64
                };
                let scores: Vec<(usize, f64)> =
                    mask.visible(row, keys.clone()).map(|j| (j, score(j))).collect();
                let most = scores.iter().map(|s| s.1).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|s| (s.1 - most).exp()).sum();
                for d in 0..self.dim {
                    let value = |&(j, s): &(usize, f64)| (s - most).exp() / sum * at(&self.v, j, d);
                    out.push(scores.iter().map(value).sum::<f64>());
                }
            }
        }
        out
    }
}

const MASKS: [Mask; 5] =
    [Mask::CAUSAL, Mask::ALL, Mask::window(19), Mask::within(19), Mask::within_inclusive(33)];

#[test]
fn matches_f64_for_every_mask_shape_and_storage() {
    let shapes =
        [(2, 1, 8, 21), (6, 1, 40, 37), (4, 2, 64, 150), (8, 2, 128, 40), (3, 1, 256, 33), (12, 2, 24, 17)];
    for (query_heads, kv_heads, dim, positions) in shapes {
        let case = Case::new(query_heads, kv_heads, dim, positions);
        for dtype in [KvDtype::F32, KvDtype::Bf16] {
            let round: fn(f32) -> f32 = match dtype {
                KvDtype::F32 => |v| v,
                KvDtype::Bf16 => |v| bf16_to_f32(f32_to_bf16(v)),
            };
            let kv = case.filled(dtype, 0..positions);
            for mask in MASKS {
                let mut first: Option<Vec<f32>> = None;
                for exec in ways() {
                    let out = case.attend(&exec, &kv, 0..positions, mask);
                    let want = case.reference(0..positions, 0..positions, mask, round);
                    close(&out, &want, 1e-6, &format!("{mask:?} dim {dim} {dtype:?}"));
                    same(&out, first.get_or_insert_with(|| out.clone()), "ways");
                }
            }
        }
    }
}

#[test]
fn a_row_has_the_bits_of_a_row_alone() {
    let (positions, start) = (560, 48);
    let case = Case::new(4, 2, 64, positions);
    for dtype in [KvDtype::F32, KvDtype::Bf16] {
        let kv = case.filled(dtype, 0..positions);
        for mask in MASKS {
            let width = case.query_heads * case.dim;
            let all = case.attend(&Exec::new(Isa::detect(), 2), &kv, start..positions, mask);
            for exec in ways() {
                for count in 1..=17 {
                    let rows = start + 2 * count..start + 3 * count;
                    let some = case.attend(&exec, &kv, rows.clone(), mask);
                    let want = &all[(rows.start - start) * width..(rows.end - start) * width];
                    same(&some, want, &format!("{mask:?} {count} rows"));
                }
            }
        }
    }
}

#[test]
fn decoding_row_by_row_gives_the_bits_of_one_prefill() {
    let case = Case::new(4, 2, 32, 300);
    let exec = Exec::new(Isa::detect(), 2);
    for mask in [Mask::CAUSAL, Mask::window(50)] {
        let all = case.attend(&exec, &case.filled(KvDtype::F32, 0..300), 0..300, mask);
        let mut kv = KvBuffer::new(2, 32, KvDtype::F32);
        let mut out = Vec::new();
        for row in 0..300 {
            case.append(&mut kv, row..row + 1);
            out.extend(case.attend(&exec, &kv, row..row + 1, mask));
        }
        same(&out, &all, "row by row");
    }
}

#[test]
fn when_a_window_drops_its_front_does_not_matter() {
    let case = Case::new(4, 1, 64, 700);
    let exec = Exec::new(Isa::detect(), 1);
    let window = 100;
    let run = |slack: usize, offset: usize| {
        let mut kv = KvBuffer::new(1, 64, KvDtype::F32);
        let mut out = Vec::new();
        for row in 0..700 {
            case.append(&mut kv, row..row + 1);
            out.extend(case.attend(&exec, &kv, row..row + 1, Mask::window(window)));
            if kv.len() >= window + slack && row % 7 == offset {
                kv.drop_front(row + 2 - window);
                assert!(kv.bytes() <= (window + 2 * 128) * 2 * 64 * 4, "{} bytes", kv.bytes());
            }
        }
        out
    };
    let first = run(10_000, 0);
    for (slack, offset) in [(0, 0), (1, 3), (32, 2), (128, 6), (200, 1)] {
        same(&run(slack, offset), &first, "slack");
    }
}

#[test]
fn a_truncated_block_leaves_no_trace() {
    let case = Case::new(2, 1, 32, 80);
    let exec = Exec::new(Isa::detect(), 1);
    let mut kv = case.filled(KvDtype::Bf16, 0..40);
    // A rejected block of NaN, then the right rows.
    let bad = vec![f32::NAN; 20 * 32];
    kv.append(40, Heads::packed(&bad, 1, 32), Heads::packed(&bad, 1, 32));
    kv.truncate(43);
    kv.truncate(60);
    assert_eq!(kv.positions(), 0..43);
    kv.truncate(40);
    same(
        &case.attend(&exec, &kv, 39..41, Mask::ALL),
        &case.attend(&exec, &case.filled(KvDtype::Bf16, 0..40), 39..41, Mask::ALL),
        "after truncate",
    );
    case.append(&mut kv, 40..80);
    let clean = case.filled(KvDtype::Bf16, 0..80);
    same(
        &case.attend(&exec, &kv, 30..80, Mask::CAUSAL),
        &case.attend(&exec, &clean, 30..80, Mask::CAUSAL),
        "after append",
    );
}

#[test]
fn forks_share_until_written_and_stay_apart() {
    let case = Case::new(2, 1, 32, 300);
    let exec = Exec::new(Isa::detect(), 1);
    let mut left = case.filled(KvDtype::F32, 0..200);
    let mut right = left.clone();
    let other = noise(77, 100 * 32);
    right.append(200, Heads::packed(&other, 1, 32), Heads::packed(&other, 1, 32));
    case.append(&mut left, 200..300);
    let clean = case.filled(KvDtype::F32, 0..300);
    let rows = 290..300;
    same(
        &case.attend(&exec, &left, rows.clone(), Mask::CAUSAL),
        &case.attend(&exec, &clean, rows.clone(), Mask::CAUSAL),
        "fork",
    );
    assert_ne!(
        case.attend(&exec, &left, rows.clone(), Mask::CAUSAL),
        case.attend(&exec, &right, rows, Mask::CAUSAL)
    );
}

#[test]
fn appends_do_not_copy_what_is_there() {
    let case = Case::new(1, 1, 32, 400);
    let mut kv = case.filled(KvDtype::F32, 0..1);
    let (keys, _) = kv.tile(0, 0);
    let home = keys.as_ptr();
    for row in 1..400 {
        case.append(&mut kv, row..row + 1);
    }
    assert_eq!(kv.tile(0, 0).0.as_ptr(), home);
    assert_eq!(kv.bytes(), 4 * 128 * 2 * 32 * 4);
}

#[test]
fn a_buffer_that_begins_late_has_the_bits_of_one_whose_front_was_dropped() {
    let case = Case::new(2, 1, 64, 400);
    let exec = Exec::new(Isa::detect(), 1);
    let late = case.filled(KvDtype::F32, 211..400);
    let mut dropped = case.filled(KvDtype::F32, 0..400);
    dropped.drop_front(211);
    for mask in MASKS {
        let want = case.attend(&exec, &dropped, 390..400, mask);
        same(&case.attend(&exec, &late, 390..400, mask), &want, "late");
        close(&want, &case.reference(211..400, 390..400, mask, |v| v), 1e-6, "late reference");
    }
}

#[test]
fn empty_cases_give_zeros_or_nothing() {
    let case = Case::new(4, 2, 64, 40);
    for exec in ways() {
        let mut kv = KvBuffer::new(2, 64, KvDtype::F32);
        assert_eq!(case.attend(&exec, &kv, 0..2, Mask::ALL), vec![0.0; 2 * 4 * 64]);
        assert!(case.attend(&exec, &kv, 3..3, Mask::CAUSAL).is_empty());
        case.append(&mut kv, 0..0);
        assert!(kv.is_empty() && kv.bytes() == 0);
        case.append(&mut kv, 0..1);
        let one = case.attend(&exec, &kv, 0..1, Mask::CAUSAL);
        // One visible key: the softmax is 1 and the output is its value.
        same(&one[..64], &case.v[..64], "first position");
        // Queries far behind the buffer see nothing through a window; neighbours in their tile do.
        case.append(&mut kv, 1..16);
        let out = case.attend(&exec, &kv, 12..40, Mask::window(5));
        assert!(out[8 * 256..].iter().all(|&v| v == 0.0) && out[..8 * 256].iter().all(|&v| v != 0.0));
        kv.drop_front(100);
        assert!(kv.is_empty() && kv.bytes() == 0);
        case.append(&mut kv, 20..24);
        assert_eq!(kv.positions(), 20..24);
    }
}

#[test]
fn non_finite_keys_values_and_queries_stay_in_the_rows_that_see_them() {
    let base = Case::new(4, 2, 32, 60);
    let width = 2 * 32;
    for (what, spoil) in [("key", 0), ("value", 1), ("query", 2)] {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut case = Case::new(4, 2, 32, 60);
            match spoil {
                0 => case.k[37 * width + 3] = bad,
                1 => case.v[37 * width + 3] = bad,
                _ => case.q[37 * 2 * width + 3] = bad,
            }
            for exec in ways() {
                let clean = base.attend(&exec, &base.filled(KvDtype::F32, 0..60), 0..60, Mask::window(9));
                let out = case.attend(&exec, &case.filled(KvDtype::F32, 0..60), 0..60, Mask::window(9));
                for (row, (a, b)) in out.chunks(2 * width).zip(clean.chunks(2 * width)).enumerate() {
                    let touched = if spoil == 2 { row == 37 } else { (37..46).contains(&row) };
                    if touched {
                        // Heads of the other key/value head are not touched.
                        same(&a[width..], &b[width..], what);
                        assert!(a.iter().any(|v| !v.is_finite()) || bad.is_infinite(), "{what} row {row}");
                    } else {
                        same(a, b, what);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any history of appends, truncations, drops and forks gives the bits of a buffer filled at once.
    #[test]
    fn any_history_gives_the_bits_of_a_fresh_buffer(
        steps in prop::collection::vec((0..4_u8, 1..60_usize), 1..25),
        window in 1..80_usize,
        group in 1..7_usize,
        bf16: bool,
    ) {
        let dtype = if bf16 { KvDtype::Bf16 } else { KvDtype::F32 };
        let case = Case::new(group, 1, 16, 1600);
        let exec = Exec::new(Isa::detect(), 1);
        let mut kv = KvBuffer::new(1, 16, dtype);
        // The lowest end a truncation may still go back to without missing dropped rows.
        let mut floor = 0;
        for (step, n) in steps {
            let end = kv.positions().end;
            match step {
                0 | 1 => {
                    case.append(&mut kv, end..end + n);
                    let rows = end..end + n;
                    let fresh = case.filled(dtype, 0..end + n);
                    let mask = Mask::window(window);
                    same(
                        &case.attend(&exec, &kv, rows.clone(), mask),
                        &case.attend(&exec, &fresh, rows, mask),
                        "history",
                    );
                }
                2 if end > floor => kv.truncate(end.saturating_sub(n).max(floor)),
                3 if end > window => {
                    kv.drop_front(end - window + 1);
                    kv = kv.clone();
                    floor = end;
                }
                _ => {}
            }
        }
    }
}
