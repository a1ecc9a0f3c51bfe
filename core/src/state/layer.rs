//! One layer's state, whatever its kind.

use super::{ConvState, DeltaState, KvState, StateError, StateKind, WindowState};
use crate::{Kept, Result, Width, nn::Mask};

/// The state of one layer.
#[derive(Clone, Debug)]
pub enum LayerState {
    /// Full attention.
    Kv(KvState),
    /// Attention over a sliding window.
    Window(WindowState),
    /// Short convolution.
    Conv(ConvState),
    /// Gated delta net.
    Delta(DeltaState),
}

impl LayerState {
    /// Rows held or seen, those of an open block included.
    pub fn len(&self) -> usize {
        match self {
            Self::Kv(state) => state.len(),
            Self::Window(state) => state.len(),
            Self::Conv(state) => state.len(),
            Self::Delta(state) => state.len(),
        }
    }

    /// Whether no row was seen.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What kind it is.
    pub fn kind(&self) -> StateKind {
        match self {
            Self::Kv(_) => StateKind::Kv,
            Self::Window(_) => StateKind::Window,
            Self::Conv(_) => StateKind::Conv,
            Self::Delta(_) => StateKind::Delta,
        }
    }

    /// Bytes that it takes once it holds `rows` rows, by estimate.
    pub(super) fn bytes(&self, rows: usize) -> usize {
        match self {
            Self::Kv(state) => state.bytes(rows),
            Self::Window(state) => state.bytes(rows),
            Self::Conv(state) => state.bytes(),
            Self::Delta(state) => state.bytes(),
        }
    }

    /// Opens a block of at most `width` rows.
    pub fn begin(&mut self, width: Width) -> Result<()> {
        match self {
            Self::Kv(state) => state.begin(width),
            Self::Window(state) => state.begin(width),
            Self::Conv(state) => state.begin(width),
            Self::Delta(state) => state.begin(width),
        }
    }

    /// Keeps the first `kept` rows of the open block.
    pub fn commit(&mut self, kept: Kept) -> Result<()> {
        match self {
            Self::Kv(state) => state.commit(kept),
            Self::Window(state) => state.commit(kept),
            Self::Conv(state) => state.commit(kept),
            Self::Delta(state) => state.commit(kept),
        }
    }

    /// The attention state.
    pub fn kv(&mut self) -> Result<&mut KvState> {
        match self {
            Self::Kv(state) => Ok(state),
            other => Err(other.wrong("keys and values")),
        }
    }

    /// The keys and values of an attention layer, and what a query sees of them.
    pub(crate) fn attention(&mut self) -> Result<(&mut KvState, Mask)> {
        match self {
            Self::Kv(state) => Ok((state, Mask::Causal)),
            Self::Window(state) => Ok(state.rows()),
            other => Err(other.wrong("keys and values")),
        }
    }

    /// The convolution state.
    pub fn conv(&mut self) -> Result<&mut ConvState> {
        match self {
            Self::Conv(state) => Ok(state),
            other => Err(other.wrong("a convolution window")),
        }
    }

    /// The delta net's state.
    pub fn delta(&mut self) -> Result<&mut DeltaState> {
        match self {
            Self::Delta(state) => Ok(state),
            other => Err(other.wrong("a delta net's state")),
        }
    }

    /// Rows that a query sees, its own included, where that is a sliding window.
    pub(super) fn window(&self) -> Option<usize> {
        match self {
            Self::Window(state) => Some(state.window()),
            _ => None,
        }
    }

    /// Computes what is pending.
    pub(crate) fn eval(&self) -> Result<()> {
        match self {
            Self::Kv(state) => state.eval(),
            Self::Window(state) => state.eval(),
            Self::Conv(state) => state.eval(),
            Self::Delta(state) => state.eval(),
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Self::Kv(_) => "keys and values",
            Self::Window(_) => "a window of keys and values",
            Self::Conv(_) => "a convolution window",
            Self::Delta(_) => "a delta net's state",
        }
    }

    fn wrong(&self, expected: &'static str) -> crate::Error {
        StateError::WrongKind { found: self.words(), expected }.into()
    }
}
