//! Splits the rows of a result over the pool's threads.

use std::ops::Range;

use crate::Exec;

/// Runs `f(rows, part of out)` over blocks of rows of `out` `[rows, width]`, in parallel when a block gets at least `split`
/// values. `f` must compute each row on its own: where the blocks end depends on the thread count.
///
/// # Panics
/// If `out` is no whole number of rows.
pub(crate) fn by_rows(
    exec: &Exec,
    out: &mut [f32],
    width: usize,
    split: usize,
    f: impl Fn(Range<usize>, &mut [f32]) + Sync,
) {
    assert!(width > 0 && out.len().is_multiple_of(width), "{} values in rows of {width}", out.len());
    let rows = out.len() / width;
    let blocks = (out.len() / split).min(exec.pool.threads() * 4).min(rows);
    if blocks <= 1 || exec.pool.threads() == 1 {
        return f(0..rows, out);
    }
    let block = rows.div_ceil(blocks);
    exec.pool.run_chunks(out, block * width, |index, part| {
        let first = index * block;
        f(first..first + part.len() / width, part);
    });
}
