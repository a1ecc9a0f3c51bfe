//! Elementwise steps of a layer: gates, the logit soft cap, residual sums.

use crate::{Exec, Heads, dispatch, math, rows::by_rows, simd::Simd};

/// Values of work that make it worth waking another thread.
const SPLIT: usize = 4 * 1024;

/// `silu(gate) · up` over a joined `[rows, 2·width]` buffer (gate, then up), to `out` `[rows, width]`.
///
/// # Panics
/// If the lengths do not match.
pub fn silu_mul(exec: &Exec, gate_up: &[f32], width: usize, out: &mut [f32]) {
    assert_eq!(gate_up.len(), 2 * out.len(), "silu_mul: joined input against output");
    by_rows(exec, out, width, SPLIT, |rows, out| {
        dispatch!(exec.isa, |s| {
            for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
                let (gate, up) = gate_up[row * 2 * width..(row + 1) * 2 * width].split_at(width);
                zip(
                    s,
                    gate,
                    up,
                    out,
                    #[inline(always)]
                    |gate, up| s.mul(math::silu(s, gate), up),
                );
            }
        });
    });
}

/// `x · sigmoid(gate)` in place; `x` is packed `[rows, heads, dim]`, the shape of the view `gate`.
///
/// # Panics
/// If the lengths differ.
pub fn sigmoid_mul(exec: &Exec, x: &mut [f32], gate: Heads<'_>) {
    assert_eq!(x.len(), gate.len(), "sigmoid_mul: values against gates");
    let (heads, dim) = (gate.heads(), gate.dim());
    by_rows(exec, x, heads * dim, SPLIT, |rows, x| {
        dispatch!(exec.isa, |s| {
            for (row, x) in rows.zip(x.chunks_exact_mut(heads * dim)) {
                for (head, x) in x.chunks_exact_mut(dim).enumerate() {
                    zip_in_place(
                        s,
                        x,
                        gate.head(row, head),
                        #[inline(always)]
                        |x, gate| s.mul(x, math::sigmoid(s, gate)),
                    );
                }
            }
        });
    });
}

/// `cap · tanh(x · multiplier / cap)` in place (Muse logits).
pub fn softcap(exec: &Exec, x: &mut [f32], multiplier: f32, cap: f32) {
    by_rows(exec, x, 1, SPLIT, |_, x| {
        dispatch!(exec.isa, |s| {
            math::apply(
                s,
                x,
                #[inline(always)]
                |x| {
                    let y = s.div(s.mul(x, s.splat(multiplier)), s.splat(cap));
                    s.mul(math::tanh(s, y), s.splat(cap))
                },
            );
        });
    });
}

/// `x += y`.
///
/// # Panics
/// If the lengths differ.
pub fn add(exec: &Exec, x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "add: lengths");
    by_rows(exec, x, 1, 4 * SPLIT, |at, x| {
        dispatch!(exec.isa, |s| zip_in_place(
            s,
            x,
            &y[at],
            #[inline(always)]
            |x, y| s.add(x, y)
        ));
    });
}

/// `x *= factor`.
pub fn scale(exec: &Exec, x: &mut [f32], factor: f32) {
    by_rows(exec, x, 1, 4 * SPLIT, |_, x| {
        dispatch!(exec.isa, |s| math::apply(
            s,
            x,
            #[inline(always)]
            |x| s.mul(x, s.splat(factor))
        ));
    });
}

/// `out = f(a, b)` over equally long slices.
#[inline(always)]
pub(crate) fn zip<S: Simd>(s: S, a: &[f32], b: &[f32], out: &mut [f32], f: impl Fn(S::F, S::F) -> S::F) {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let (out, out_rest) = out.as_chunks_mut::<16>();
    for ((a, b), out) in a.iter().zip(b).zip(out) {
        s.store(out, f(s.load(a), s.load(b)));
    }
    if !out_rest.is_empty() {
        s.store_partial(out_rest, f(s.load_partial(a_rest, 0.0), s.load_partial(b_rest, 0.0)));
    }
}

/// `x = f(x, y)` over equally long slices.
#[inline(always)]
pub(crate) fn zip_in_place<S: Simd>(s: S, x: &mut [f32], y: &[f32], f: impl Fn(S::F, S::F) -> S::F) {
    let (x, x_rest) = x.as_chunks_mut::<16>();
    let (y, y_rest) = y.as_chunks::<16>();
    for (x, y) in x.iter_mut().zip(y) {
        let v = f(s.load(x), s.load(y));
        s.store(x, v);
    }
    if !x_rest.is_empty() {
        let v = f(s.load_partial(x_rest, 0.0), s.load_partial(y_rest, 0.0));
        s.store_partial(x_rest, v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, noise, same, ways};

    /// `x = f(x, y)` in place.
    type Step<'a> = &'a dyn Fn(&Exec, &mut [f32], &[f32]);

    fn wide(seed: u64, n: usize) -> Vec<f32> {
        noise(seed, n).iter().map(|v| v * 12.0).collect()
    }

    fn logistic(x: f32) -> f64 {
        1.0 / (1.0 + (-x as f64).exp())
    }

    /// Runs `f` every way on rows of `width`, all at once and one to 17 at a time; returns the one result.
    fn one_result(rows: usize, width: usize, f: impl Fn(&Exec, usize, &mut [f32])) -> Vec<f32> {
        let mut first: Option<Vec<f32>> = None;
        for exec in ways() {
            for count in (1..=17).chain([rows]) {
                let mut out = vec![0.0; count * width];
                f(&exec, count, &mut out);
                let all = first.get_or_insert_with(|| {
                    let mut all = vec![0.0; rows * width];
                    f(&exec, rows, &mut all);
                    all
                });
                same(&out, &all[..count * width], "rows or ways");
            }
        }
        first.unwrap()
    }

    #[test]
    fn silu_mul_matches_f64() {
        for width in [5, 16, 100] {
            let x = wide(width as u64, 512 * 2 * width);
            let got =
                one_result(512, width, |exec, rows, out| silu_mul(exec, &x[..rows * 2 * width], width, out));
            let want = x
                .chunks(2 * width)
                .flat_map(|row| (0..width).map(|i| row[i] as f64 * logistic(row[i]) * row[width + i] as f64));
            close(&got, &want.collect::<Vec<_>>(), 3e-7, "silu_mul");
        }
    }

    #[test]
    fn sigmoid_mul_reads_gates_between_queries() {
        // Two heads of [12 query values, 12 gate values].
        let x = wide(1, 512 * 48);
        let values = wide(2, 512 * 24);
        let got = one_result(512, 24, |exec, rows, out| {
            out.copy_from_slice(&values[..rows * 24]);
            sigmoid_mul(exec, out, Heads::strided(&x[..rows * 48], 48, 12, 2, 24, 12));
        });
        let gate = |i: usize| x[i / 24 * 48 + i % 24 / 12 * 24 + 12 + i % 12];
        let want: Vec<f64> = (0..got.len()).map(|i| values[i] as f64 * logistic(gate(i))).collect();
        close(&got, &want, 3e-7, "sigmoid_mul");
    }

    #[test]
    fn softcap_sums_and_scales() {
        let (x, y) = (wide(3, 512 * 33), wide(4, 512 * 33));
        let check = |f: Step<'_>, want: &dyn Fn(f64, f64) -> f64, what: &str| {
            let got = one_result(512, 33, |exec, rows, out| {
                out.copy_from_slice(&x[..rows * 33]);
                f(exec, out, &y[..rows * 33]);
            });
            let want: Vec<f64> = x.iter().zip(&y).map(|(&x, &y)| want(x as f64, y as f64)).collect();
            close(&got, &want, 3e-7, what);
        };
        check(&|exec, x, _| softcap(exec, x, 2.5, 20.0), &|x, _| 20.0 * (x * 2.5 / 20.0).tanh(), "softcap");
        check(&|exec, x, y| add(exec, x, y), &|x, y| x + y, "add");
        check(&|exec, x, _| scale(exec, x, 3.87), &|x, _| x * 3.87_f32 as f64, "scale");
    }

    #[test]
    fn non_finite_values_stay_where_they_are() {
        for exec in ways() {
            let mut x = vec![1.0; 40];
            (x[3], x[17]) = (f32::NAN, f32::INFINITY);
            softcap(&exec, &mut x, 1.0, 20.0);
            assert!(x[3].is_nan() && x[17] == 20.0);
            assert!(x.iter().enumerate().all(|(i, v)| i == 3 || v.is_finite()));
        }
    }
}
