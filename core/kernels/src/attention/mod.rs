//! Attention over a growing buffer of keys and values.

mod buffer;
mod kernel;
mod mask;
mod read;
mod storage;
#[cfg(test)]
mod tests;

pub use buffer::KvBuffer;
pub use mask::Mask;
pub use storage::KvDtype;

use crate::{Exec, Heads, Isa, dispatch, parts::Parts, simd::Simd};
use kernel::{Job, Scratch};
use storage::{Bf16, F32, Stored};

/// Multiply-adds that make it worth waking another thread.
const SPLIT: usize = 128 * 1024;

/// `softmax(scale · q kᵀ) v` for queries `q` `[rows, query heads, head_dim]` at absolute positions `start ..`, over the
/// positions that `kv` holds and `mask` lets each query see, to the packed `out`. Query head h reads key/value head
/// `h / (query heads / kv heads)`.
///
/// The softmax is exact (maximum first, then exponentials), all sums are f32. A score sums even and odd dimensions apart;
/// the denominator sums the 16 positions of a tile apart, tile after tile; the values are summed position after position.
/// All of that is a function of absolute positions, so the bits of a row depend on its query and on the visible keys
/// only. A query that sees nothing gives zeros. A NaN in a key or value that a query does not see never reaches it.
///
/// A drafter's block that attends to a context and to itself: append the block's keys and values, attend with
/// [`Mask::ALL`] or a two-sided window, truncate.
///
/// # Panics
/// If the shapes do not match.
pub fn attend(
    exec: &Exec,
    q: Heads<'_>,
    kv: &KvBuffer,
    start: usize,
    mask: Mask,
    scale: f32,
    out: &mut [f32],
) {
    assert_eq!(q.dim(), kv.head_dim(), "head dimension of the queries against the buffer's");
    assert!(
        q.heads().is_multiple_of(kv.heads()),
        "{} query heads on {} key/value heads: not a multiple",
        q.heads(),
        kv.heads()
    );
    assert_eq!(out.len(), q.len(), "attend: output length");
    match kv.dtype() {
        KvDtype::F32 => run::<F32>(exec, q, kv, start, mask, scale, out),
        KvDtype::Bf16 => run::<Bf16>(exec, q, kv, start, mask, scale, out),
    }
}

fn run<K: Stored>(
    exec: &Exec,
    q: Heads<'_>,
    kv: &KvBuffer,
    start: usize,
    mask: Mask,
    scale: f32,
    out: &mut [f32],
) {
    let group = q.heads() / kv.heads();
    let queries = q.rows() * group;
    let tile = match exec.isa {
        Isa::Avx512 => 8,
        Isa::Avx2 | Isa::Portable => 4,
    };
    let tiles = queries.div_ceil(tile);
    let out = Parts::new(out);
    let job = |index: usize| {
        let (head, tile_index) = (index / tiles, index % tiles);
        let queries = tile_index * tile..((tile_index + 1) * tile).min(queries);
        let job = Job { q, kv, start, mask, scale, out: &out, group, head };
        Scratch::with(|scratch| dispatch!(exec.isa, |s| job.run::<_, K>(s, queries, scratch)));
    };
    let work = queries * kv.heads() * kv.len() * kv.head_dim();
    let jobs = tiles * kv.heads();
    if work < SPLIT { (0..jobs).for_each(job) } else { exec.pool.run(jobs, job) }
}
