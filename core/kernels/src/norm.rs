//! Root mean square norms (spec: plain, centred and scaleless flavours are the caller's choice of weight).

use crate::{Exec, Heads, dispatch, rows::by_rows, simd::Simd};

/// Values of work that make it worth waking another thread.
const SPLIT: usize = 32 * 1024;

/// `x / sqrt(mean(x²) + eps) · weight` over the last axis of `x` `[rows, heads, dim]`, to the packed `out`.
///
/// `weight` is `[dim]`, or `None` for the scaleless norm. A row of whole values is [`Heads::rows_of`]. A row that holds a
/// NaN or an infinity gives NaN or 0 in that head only.
///
/// # Panics
/// If `out` or `weight` has another length than the view asks for.
pub fn rms_norm(exec: &Exec, x: Heads<'_>, weight: Option<&[f32]>, eps: f32, out: &mut [f32]) {
    check(weight, x.dim());
    assert_eq!(out.len(), x.len(), "rms_norm: output length");
    let (heads, dim) = (x.heads(), x.dim());
    by_rows(exec, out, heads * dim, SPLIT, |rows, out| {
        dispatch!(exec.isa, |s| {
            for (row, out) in rows.zip(out.chunks_exact_mut(heads * dim)) {
                for (head, out) in out.chunks_exact_mut(dim).enumerate() {
                    norm_row(s, x.head(row, head), weight, eps, out);
                }
            }
        });
    });
}

/// `h += r`, then `out = rms_norm(h)`: the step between two blocks of a layer. All of `[rows, width]`.
///
/// # Panics
/// If the lengths differ or are no whole number of rows.
pub fn add_rms_norm(
    exec: &Exec,
    h: &mut [f32],
    r: &[f32],
    width: usize,
    weight: Option<&[f32]>,
    eps: f32,
    out: &mut [f32],
) {
    crate::activation::add(exec, h, r);
    rms_norm(exec, Heads::rows_of(h, width), weight, eps, out);
}

fn check(weight: Option<&[f32]>, dim: usize) {
    if let Some(weight) = weight {
        assert_eq!(weight.len(), dim, "rms_norm: weight length against the norm's width");
    }
}

/// One norm. Four accumulators take blocks of 16 in turn, so the order depends on the width alone.
#[inline(always)]
pub(crate) fn norm_row<S: Simd>(s: S, x: &[f32], weight: Option<&[f32]>, eps: f32, out: &mut [f32]) {
    let mean = sum_of_squares(s, x) / x.len() as f32;
    let r = s.splat(1.0 / (mean + eps).sqrt());
    let (full, rest) = x.as_chunks::<16>();
    let (out, out_rest) = out.as_chunks_mut::<16>();
    for (i, (x, out)) in full.iter().zip(out).enumerate() {
        let y = s.mul(s.load(x), r);
        let y = match weight {
            Some(w) => s.mul(y, s.load_partial(&w[i * 16..i * 16 + 16], 0.0)),
            None => y,
        };
        s.store(out, y);
    }
    if !rest.is_empty() {
        let y = s.mul(s.load_partial(rest, 0.0), r);
        let y = match weight {
            Some(w) => s.mul(y, s.load_partial(&w[full.len() * 16..], 0.0)),
            None => y,
        };
        s.store_partial(out_rest, y);
    }
}

/// Σ x², in an order that depends on the length alone.
#[inline(always)]
pub(crate) fn sum_of_squares<S: Simd>(s: S, x: &[f32]) -> f32 {
    let (full, rest) = x.as_chunks::<16>();
    let (fours, left) = full.as_chunks::<4>();
    let mut acc = [s.splat(0.0); 4];
    for four in fours {
        for (acc, x) in acc.iter_mut().zip(four) {
            let v = s.load(x);
            *acc = s.fma(v, v, *acc);
        }
    }
    for (acc, x) in acc.iter_mut().zip(left) {
        let v = s.load(x);
        *acc = s.fma(v, v, *acc);
    }
    if !rest.is_empty() {
        let v = s.load_partial(rest, 0.0);
        acc[3] = s.fma(v, v, acc[3]);
    }
    s.reduce_add(s.add(s.add(acc[0], acc[1]), s.add(acc[2], acc[3])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, noise, same, ways};

    /// The reference, in f64.
    fn reference(x: &[f32], width: usize, weight: Option<&[f32]>, eps: f32) -> Vec<f64> {
        let norm = |row: &[f32]| {
            let mean = row.iter().map(|&v| (v as f64).powi(2)).sum::<f64>() / width as f64;
            let r = 1.0 / (mean + eps as f64).sqrt();
            let value = |i: usize| row[i] as f64 * r * weight.map_or(1.0, |w| w[i] as f64);
            (0..width).map(value).collect::<Vec<f64>>()
        };
        x.chunks(width).flat_map(norm).collect()
    }

    #[test]
    fn every_width_matches_f64_and_has_one_set_of_bits() {
        for width in [1, 8, 15, 16, 17, 48, 63, 64, 100, 128, 200, 1024] {
            let (x, w) = (noise(width as u64, 19 * width), noise(7, width));
            for weight in [None, Some(&w[..])] {
                let mut first: Vec<f32> = Vec::new();
                for exec in ways() {
                    let mut out = vec![0.0; x.len()];
                    rms_norm(&exec, Heads::rows_of(&x, width), weight, 1e-5, &mut out);
                    close(&out, &reference(&x, width, weight, 1e-5), 3e-7, "rms_norm");
                    first = if first.is_empty() { out.clone() } else { first };
                    same(&out, &first, "ways");
                }
            }
        }
    }

    #[test]
    fn a_row_does_not_depend_on_the_others() {
        let (width, rows) = (200, 512);
        let mut x = noise(3, rows * width);
        x[5 * width] = f32::NAN;
        x[6 * width + 1] = f32::INFINITY;
        let w = noise(4, width);
        for exec in ways() {
            let mut all = vec![0.0; x.len()];
            rms_norm(&exec, Heads::rows_of(&x, width), Some(&w), 1e-5, &mut all);
            for count in (1..=17).chain([rows]) {
                let mut some = vec![0.0; count * width];
                rms_norm(&exec, Heads::rows_of(&x[..count * width], width), Some(&w), 1e-5, &mut some);
                same(&some, &all[..count * width], "rows");
            }
            let finite = |row: usize| all[row * width..(row + 1) * width].iter().all(|v| v.is_finite());
            assert!(!finite(5) && (7..rows).chain(0..5).all(finite));
        }
    }

    #[test]
    fn strided_heads_are_normed_one_by_one() {
        let exec = &ways()[0];
        let joined = noise(9, 4 * 60);
        let view = Heads::columns(&joined, 60, 12, 3, 8);
        let mut out = vec![0.0; view.len()];
        rms_norm(exec, view, None, 0.0, &mut out);
        for row in 0..4 {
            for head in 0..3 {
                let mut one = vec![0.0; 8];
                rms_norm(exec, Heads::rows_of(view.head(row, head), 8), None, 0.0, &mut one);
                same(&one, &out[(row * 3 + head) * 8..][..8], "head");
            }
        }
    }

    #[test]
    fn the_residual_is_added_first() {
        let exec = &ways()[0];
        let (h, r, w) = (noise(1, 60), noise(2, 60), noise(3, 20));
        let (mut sum, mut out) = (h.clone(), vec![0.0; 60]);
        add_rms_norm(exec, &mut sum, &r, 20, Some(&w), 1e-6, &mut out);
        let want: Vec<f32> = h.iter().zip(&r).map(|(a, b)| a + b).collect();
        same(&sum, &want, "sum");
        close(&out, &reference(&want, 20, Some(&w), 1e-6), 3e-7, "norm of the sum");
    }
}
