//! How a product is split: chunks over threads, strips of blocks, tiles of rows.

use std::ops::Range;

use crate::simd::{LANES, Simd};
use crate::{Pool, pool::Base};

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

    /// Stores the 16 outputs of `block` in `row`, without those past the last column.
    ///
    /// # Safety
    /// `row` and the block's first column are within the buffer, which outlives the call, and no other thread
    /// writes this block of this row.
    #[inline(always)]
    pub(super) unsafe fn store<S: Simd>(&self, s: S, row: usize, block: usize, v: S::F) {
        let first = block * LANES;
        let len = LANES.min(self.cols - first);
        // SAFETY: by the caller's promise these `len` floats are within the buffer and ours.
        let out = unsafe { std::slice::from_raw_parts_mut(self.base.at(row * self.cols + first), len) };
        match <&mut [f32; LANES]>::try_from(&mut *out) {
            Ok(full) => s.store(full, v),
            Err(_) => s.store_partial(out, v),
        }
    }
}

/// A kernel for `M` rows x `NB` blocks.
pub(super) trait Tile {
    /// Computes rows `row..row + M` of blocks `block..block + NB`. `cold`: the weights come from memory,
    /// prefetch them.
    ///
    /// # Safety
    /// The ranges are within the product, and no other thread writes them.
    unsafe fn tile<const M: usize, const NB: usize>(&self, row: usize, block: usize, cold: bool);
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

/// Walks a part in strips and tiles whose accumulators fit the registers of `S`. A tile's shape never changes
/// its results.
///
/// # Safety
/// As [`Tile::tile`], for the whole part.
pub(super) unsafe fn walk<S: Simd, T: Tile>(tile: &T, blocks: Range<usize>, rows: Range<usize>) {
    for first in blocks.clone().step_by(STRIP) {
        let strip = first..blocks.end.min(first + STRIP);
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
                        1 => across::<T, 1, 4>(tile, at),
                        2 => across::<T, 2, 4>(tile, at),
                        3 => across::<T, 3, 2>(tile, at),
                        4 => across::<T, 4, 2>(tile, at),
                        5 | 9 | 10 => across::<T, 5, 2>(tile, at),
                        6 | 11 => across::<T, 6, 1>(tile, at),
                        12.. if row > rows.start => across::<T, 6, 2>(tile, at),
                        7 => across::<T, 7, 1>(tile, at),
                        _ => across::<T, 8, 1>(tile, at),
                    }
                } else {
                    match left {
                        1 => across::<T, 1, 2>(tile, at),
                        2 | 4 => across::<T, 2, 1>(tile, at),
                        _ => across::<T, 3, 1>(tile, at),
                    }
                }
            };
        }
    }
}

/// `M` rows of a strip in tiles of `NB` blocks, the rest block by block; returns `M`.
unsafe fn across<T: Tile, const M: usize, const NB: usize>(
    tile: &T,
    (row, mut strip, cold): (usize, Range<usize>, bool),
) -> usize {
    // SAFETY: the caller's promise.
    unsafe {
        while strip.len() >= NB {
            tile.tile::<M, NB>(row, strip.start, cold);
            strip.start += NB;
        }
        for block in strip {
            tile.tile::<M, 1>(row, block, cold);
        }
    }
    M
}
