//! The states of all layers of one sequence.

use super::{LayerState, StateError};
use crate::{Kept, Result, Width};

/// One sequence's state: a [`LayerState`] a layer, all of the same length (S2).
#[derive(Clone, Debug)]
pub struct SequenceState {
    layers: Vec<LayerState>,
    open: bool,
}

impl SequenceState {
    /// From the empty states of all layers, in order.
    pub fn new(layers: Vec<LayerState>) -> Self {
        Self { layers, open: false }
    }

    /// Layers.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Rows held, those of an open block included. Fails when the layers disagree, as they do after a failed forward
    /// until its block is taken back.
    pub fn len(&self) -> Result<usize> {
        let expected = self.layers.first().map_or(0, LayerState::len);
        match self.layers.iter().position(|layer| layer.len() != expected) {
            None => Ok(expected),
            Some(layer) => {
                let found = self.layers[layer].len();
                Err(StateError::UnequalLayers { layer, found, expected }.into())
            }
        }
    }

    /// Bytes that it takes once it holds `rows` rows, by estimate: values count as f32.
    pub fn bytes(&self, rows: usize) -> usize {
        self.layers.iter().map(|layer| layer.bytes(rows)).sum()
    }

    /// Whether no row was seen.
    pub fn is_empty(&self) -> bool {
        self.layers.iter().all(LayerState::is_empty)
    }

    /// Whether a block is open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Opens a block of at most `width` rows on every layer.
    pub fn begin(&mut self, width: Width) -> Result<()> {
        if self.open {
            return Err(StateError::AlreadyOpen { rows: width.rows() }.into());
        }
        self.len()?;
        self.open = true;
        for at in 0..self.layers.len() {
            if let Err(error) = self.layers[at].begin(width) {
                // A layer that refuses leaves none open.
                for layer in &mut self.layers[..at] {
                    layer.commit(Kept(0))?;
                }
                self.open = false;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Keeps the first `kept` rows of the open block on every layer; `commit(0)` restores what was before it, after a
    /// failed forward too.
    pub fn commit(&mut self, kept: Kept) -> Result<()> {
        if !self.open {
            return Err(StateError::NotOpen.into());
        }
        if kept.0 > 0 {
            self.len()?;
        }
        for layer in &mut self.layers {
            layer.commit(kept)?;
        }
        self.open = false;
        Ok(())
    }

    /// A bit-equal copy that lives on its own.
    #[must_use]
    pub fn fork(&self) -> Self {
        self.clone()
    }

    /// The state of `layer`.
    pub fn layer(&mut self, layer: usize) -> Result<&mut LayerState> {
        let layers = self.layers.len();
        self.layers.get_mut(layer).ok_or_else(|| StateError::NoSuchLayer { layer, layers }.into())
    }

    /// The states of all layers, in order.
    pub fn layer_states(&self) -> &[LayerState] {
        &self.layers
    }

    /// Rows that the layers with a sliding window see, each number once, in order.
    pub fn windows(&self) -> Vec<usize> {
        let mut windows: Vec<_> = self.layers.iter().filter_map(LayerState::window).collect();
        windows.sort_unstable();
        windows.dedup();
        windows
    }

    /// Computes what is pending, so that nothing lazy outlives a round.
    pub fn eval(&self) -> Result<()> {
        self.layers.iter().try_for_each(LayerState::eval)
    }
}
