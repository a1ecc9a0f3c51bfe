//! Keys and values of a layer that sees a window only.

use super::KvState;
use crate::{Kept, Result, Width, nn::Mask};

/// The last rows of a sequence in a causal sliding layer (spec 3.5): those that the next query sees, and some slack, in
/// **temporal** order with their absolute positions, never in that of a ring. Whatever was dropped, and whenever, a query
/// sees the same rows at the same positions (S4).
///
/// Appends do not copy the window: it moves once the slack is used up. Taking rows back moves the end, so the slack must
/// be `width − 1` rows at least, which is checked when a block is opened. Between two appends a prompt's chunk may lie
/// beyond that: its rows see the window in front of the first of them.
#[derive(Clone, Debug)]
pub struct WindowState {
    rows: KvState,
    window: usize,
}

impl WindowState {
    /// An empty state for `kv_heads` heads of `head_dim`, queries that see `window` rows (at least 1, the query's own
    /// included), and blocks of up to `width` rows. The slack is `max(clamp(8 · width, 32, 128), width)` rows.
    pub fn new(kv_heads: usize, head_dim: usize, window: usize, width: Width) -> Self {
        Self { rows: KvState::windowed(kv_heads, head_dim, window - 1, width), window }
    }

    /// Bytes that it takes once it has taken `rows` rows, by estimate.
    pub(super) fn bytes(&self, rows: usize) -> usize {
        self.rows.bytes(rows)
    }

    /// Rows taken, those of an open block and dropped ones included: the position of the next row.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no row was taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows that a query sees, its own included.
    pub fn window(&self) -> usize {
        self.window
    }

    /// Positions of the rows held: those that the next query sees, and some slack.
    pub fn positions(&self) -> std::ops::Range<usize> {
        self.rows.positions()
    }

    /// Opens a block of at most `width` rows.
    pub fn begin(&mut self, width: Width) -> Result<()> {
        self.rows.begin(width)
    }

    /// Keeps the first `kept` rows of the open block and drops the rest.
    pub fn commit(&mut self, kept: Kept) -> Result<()> {
        self.rows.commit(kept)
    }

    /// The keys that the next query sees, then the values; see [`KvState::contents`].
    pub fn contents(&self) -> Result<Vec<f32>> {
        self.rows.contents()
    }

    /// The rows, and what a query sees of them.
    pub(super) fn rows(&mut self) -> (&mut KvState, Mask) {
        (&mut self.rows, Mask::Window(self.window))
    }

    /// Computes what is pending.
    pub(super) fn eval(&self) -> Result<()> {
        self.rows.eval()
    }
}

#[cfg(test)]
mod tests;
