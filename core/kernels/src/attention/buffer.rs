//! Keys and values of one layer, by absolute position.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::storage::{KvDtype, Line};
use crate::Heads;

/// Positions of a tile: the unit of the reduction order.
pub(super) const TILE: usize = 16;
/// Positions of a chunk: the unit of growth, sharing and dropping.
const CHUNK: usize = 128;

/// Keys and values of a contiguous run of absolute positions, in chunks that start at multiples of 128.
///
/// An append writes into the last chunk or adds one and never copies what is there. A clone shares the chunks; the
/// first append to a shared chunk copies that chunk only, so forks cost little and stay bit-equal. Keys lie in tiles of 16
/// absolute positions, so what [`attend`](super::attend) computes does not depend on where the buffer starts or on
/// when rows were dropped.
#[derive(Clone, Debug)]
pub struct KvBuffer {
    heads: usize,
    dim: usize,
    dtype: KvDtype,
    /// Live absolute positions.
    live: Range<usize>,
    /// Absolute number of the first chunk: `live.start / CHUNK` while there are chunks.
    first_chunk: usize,
    chunks: VecDeque<Arc<Vec<Line>>>,
}

impl KvBuffer {
    /// An empty buffer for `heads` key/value heads of `head_dim` values.
    ///
    /// # Panics
    /// If `heads` is 0, or `head_dim` is not a multiple of 8 in 8..=256.
    pub fn new(heads: usize, head_dim: usize, dtype: KvDtype) -> Self {
        assert!(heads > 0, "a key/value buffer without heads");
        assert!(
            (8..=256).contains(&head_dim) && head_dim.is_multiple_of(8),
            "head dimension {head_dim}; expected a multiple of 8 up to 256"
        );
        Self { heads, dim: head_dim, dtype, live: 0..0, first_chunk: 0, chunks: VecDeque::new() }
    }

    /// Key/value heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Values of a head.
    pub fn head_dim(&self) -> usize {
        self.dim
    }

    /// Type of the stored values.
    pub fn dtype(&self) -> KvDtype {
        self.dtype
    }

    /// The absolute positions it holds.
    pub fn positions(&self) -> Range<usize> {
        self.live.clone()
    }

    /// Positions it holds.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Bytes of its chunks, shared ones included.
    pub fn bytes(&self) -> usize {
        self.chunks.len() * self.chunk_lines() * size_of::<Line>()
    }

    /// Adds rows of keys and values `[rows, heads, head_dim]` at absolute position `start`.
    ///
    /// # Panics
    /// If the shapes differ, or `start` is not the end of the buffer (an empty one may begin anywhere).
    pub fn append(&mut self, start: usize, keys: Heads<'_>, values: Heads<'_>) {
        for (what, view) in [("keys", keys), ("values", values)] {
            assert!(
                (view.heads(), view.dim()) == (self.heads, self.dim),
                "{what} of {} heads of {} for a buffer of {} heads of {}",
                view.heads(),
                view.dim(),
                self.heads,
                self.dim
            );
        }
        assert_eq!(keys.rows(), values.rows(), "rows of keys against rows of values");
        if keys.is_empty() {
            return;
        }
        if self.is_empty() {
            self.chunks.clear();
            (self.live, self.first_chunk) = (start..start, start / CHUNK);
        }
        assert_eq!(start, self.live.end, "rows appended at another position than the end of the buffer");
        for row in 0..keys.rows() {
            self.write(start + row, |head| keys.head(row, head), |head| values.head(row, head));
        }
        self.live.end = start + keys.rows();
    }

    fn write<'a>(&mut self, at: usize, key: impl Fn(usize) -> &'a [f32], value: impl Fn(usize) -> &'a [f32]) {
        let index = at / CHUNK - self.first_chunk;
        let (head_lines, key_lines, lines) = (self.head_lines(), self.key_lines(), self.dtype.lines());
        if index == self.chunks.len() {
            self.chunks.push_back(Arc::new(vec![Line([0; 16]); self.chunk_lines()]));
        }
        let chunk = Arc::make_mut(&mut self.chunks[index]);
        let (tile, lane) = (at % CHUNK / TILE, at % TILE);
        for (head, part) in chunk.chunks_exact_mut(head_lines).enumerate() {
            let (keys, values) = part.split_at_mut(CHUNK / TILE * key_lines);
            let tile = &mut keys[tile * key_lines..(tile + 1) * key_lines];
            for (pair, two) in tile.chunks_exact_mut(lines).zip(key(head).as_chunks::<2>().0) {
                self.dtype.put(pair, 0, lane, two[0]);
                self.dtype.put(pair, 1, lane, two[1]);
            }
            let row_lines = values.len() / CHUNK;
            let row = &mut values[at % CHUNK * row_lines..(at % CHUNK + 1) * row_lines];
            for (d, &v) in value(head).iter().enumerate() {
                self.dtype.put(&mut row[d / 32 * lines..], d % 32 / 16, d % 16, v);
            }
        }
    }

    /// Forgets the positions from `end` on; nothing if the buffer ends before.
    pub fn truncate(&mut self, end: usize) {
        self.live.end = end.clamp(self.live.start, self.live.end.max(self.live.start));
        let keep = if self.is_empty() { 0 } else { self.live.end.div_ceil(CHUNK) - self.first_chunk };
        self.chunks.truncate(keep);
    }

    /// Forgets the positions before `first` and frees the chunks that lie wholly before it.
    pub fn drop_front(&mut self, first: usize) {
        self.live.start = first.clamp(self.live.start, self.live.end);
        while !self.chunks.is_empty()
            && (self.is_empty() || (self.first_chunk + 1) * CHUNK <= self.live.start)
        {
            self.chunks.pop_front();
            self.first_chunk += 1;
        }
    }

    /// Lines of one head's tile of keys.
    fn key_lines(&self) -> usize {
        self.dim / 2 * self.dtype.lines()
    }

    /// Lines of one head's values of one position; dimensions are padded to 32.
    fn value_lines(&self) -> usize {
        self.dim.div_ceil(32) * self.dtype.lines()
    }

    /// Lines of one head of a chunk: its tiles of keys, then its rows of values.
    fn head_lines(&self) -> usize {
        CHUNK / TILE * self.key_lines() + CHUNK * self.value_lines()
    }

    fn chunk_lines(&self) -> usize {
        self.heads * self.head_lines()
    }

    /// The keys of one tile (absolute number) of one head, and its 16 rows of values. Positions that are not
    /// live hold anything.
    #[inline(always)]
    pub(super) fn tile(&self, head: usize, tile: usize) -> (&[Line], &[Line]) {
        let per_chunk = CHUNK / TILE;
        let chunk = &self.chunks[tile / per_chunk - self.first_chunk];
        let part = &chunk[head * self.head_lines()..(head + 1) * self.head_lines()];
        let (keys, values) = part.split_at(per_chunk * self.key_lines());
        let (at, rows) = (tile % per_chunk, TILE * self.value_lines());
        (&keys[at * self.key_lines()..(at + 1) * self.key_lines()], &values[at * rows..(at + 1) * rows])
    }
}
