//! How a product is split: chunks over threads, strips of blocks, tiles of rows.

use std::ops::Range;

use crate::{Pool, pool::Base};

use super::register::Register;

/// Blocks (of 16 outputs) that a thread walks side by side; all rows of a chunk pass a strip before the next
/// begins, so weights come from memory once a chunk of rows.
const STRIP: usize = 4;

/// Bytes of activations that stay in the second-level cache during a strip.
const ROW_CHUNK: usize = 512 << 10;

/// Where a product's result goes: `[rows, cols]`.
pub(super) struct Output {
    base: Base<f32>,
    cols: usize,
}

impl Output {
    /// Of a buffer of whole rows of `cols`.
    pub(super) fn new(out: &mut [f32], cols: usize) -> Output {
        Output { base: Base(out.as_mut_ptr()), cols }
    }

    /// Stores a register of outputs in `row`, without those past the last column of the product.
    ///
    /// # Safety
    /// `row` is within the buffer, which outlives the call, and no other thread writes these outputs of this row.
    #[inline(always)]
    pub(super) unsafe fn store<S: Register>(&self, s: S, row: usize, column: usize, v: S::R) {
        let first = column * S::WIDTH;
        if first < self.cols {
            let len = S::WIDTH.min(self.cols - first);
            // SAFETY: by the caller's promise these `len` floats are within the buffer and ours.
            s.write(unsafe { std::slice::from_raw_parts_mut(self.base.at(row * self.cols + first), len) }, v);
        }
    }
}

/// A kernel for `M` rows x `C` columns; a column is a register of outputs.
pub(super) trait Tile<S> {
    /// Registers that hold the sums of one row and column.
    const SUMS: usize;

    /// Computes rows `row..row + M` of columns `column..column + C`. `cold`: the weights come from memory,
    /// prefetch them.
    ///
    /// # Safety
    /// The ranges are within the product, and no other thread writes them.
    unsafe fn tile<const M: usize, const C: usize>(&self, row: usize, column: usize, cold: bool);
}

/// Runs `part(blocks, rows)` over the pool so that the parts cover all of `[rows, blocks]`. `row_bytes`: of
/// activations.
pub(super) fn split(
    pool: &Pool,
    rows: usize,
    blocks: usize,
    row_bytes: usize,
    part: impl Fn(Range<usize>, Range<usize>) + Sync,
) {
    let per = (blocks / pool.threads() / 4).clamp(STRIP, 64) / STRIP * STRIP;
    let columns = blocks.div_ceil(per);
    let chunk = (ROW_CHUNK / row_bytes / 8 * 8).max(16);
    pool.run(columns * rows.div_ceil(chunk), |index| {
        let (first_row, first_block) = (index / columns * chunk, index % columns * per);
        part(first_block..blocks.min(first_block + per), first_row..rows.min(first_row + chunk));
    });
}

/// Walks a part in strips and tiles whose sums fit the registers of `S`. A tile's shape never changes its results.
///
/// # Safety
/// As [`Tile::tile`], for the whole part.
pub(super) unsafe fn walk<S: Register, T: Tile<S>>(tile: &T, blocks: Range<usize>, rows: Range<usize>) {
    for first in blocks.clone().step_by(STRIP) {
        let strip = first * S::PARTS..blocks.end.min(first + STRIP) * S::PARTS;
        let mut row = rows.start;
        while row < rows.end {
            let at = (row, strip.clone(), row == rows.start);
            let left = rows.end - row;
            // SAFETY: within the part.
            row += unsafe {
                if const { S::REGISTERS >= 32 } {
                    // While weights come from memory, one stream is fastest from 6 rows on; later tiles load
                    // fewer activations as 6 x 2. 9 to 11 rows are split evenly: 8 + 1 would read the weights
                    // once more for a single row.
                    match left {
                        1 => across::<S, T, 1, 4>(tile, at),
                        2 => across::<S, T, 2, 4>(tile, at),
                        3 => across::<S, T, 3, 2>(tile, at),
                        4 => across::<S, T, 4, 2>(tile, at),
                        5 | 9 | 10 => across::<S, T, 5, 2>(tile, at),
                        6 | 11 => across::<S, T, 6, 1>(tile, at),
                        12.. if row > rows.start => across::<S, T, 6, 2>(tile, at),
                        7 => across::<S, T, 7, 1>(tile, at),
                        _ => across::<S, T, 8, 1>(tile, at),
                    }
                } else if const { T::SUMS == 1 } {
                    match left {
                        1 => across::<S, T, 1, 4>(tile, at),
                        2 => across::<S, T, 2, 2>(tile, at),
                        3 | 5 | 6 | 9 => across::<S, T, 3, 2>(tile, at),
                        _ => across::<S, T, 4, 2>(tile, at),
                    }
                } else {
                    match left {
                        1 => across::<S, T, 1, 4>(tile, at),
                        2 => across::<S, T, 2, 2>(tile, at),
                        3 => across::<S, T, 3, 1>(tile, at),
                        4 | 7 | 8 => across::<S, T, 4, 1>(tile, at),
                        5 | 9 | 10 => across::<S, T, 5, 1>(tile, at),
                        _ => across::<S, T, 6, 1>(tile, at),
                    }
                }
            };
        }
    }
}

/// `M` rows of a strip in tiles of `C` columns, the rest column by column; returns `M`.
unsafe fn across<S: Register, T: Tile<S>, const M: usize, const C: usize>(
    tile: &T,
    (row, mut strip, cold): (usize, Range<usize>, bool),
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        while strip.len() >= C {
            tile.tile::<M, C>(row, strip.start, cold);
            strip.start += C;
        }
        for column in strip {
            tile.tile::<M, 1>(row, column, cold);
        }
    }
    M
}
