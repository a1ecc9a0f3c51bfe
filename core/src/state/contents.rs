//! What a state holds, on the host: how checks compare two states, whatever their buffers look like.

use super::{LayerState, SequenceState};
use crate::Result;

impl LayerState {
    /// All that later rows can see of the committed rows, raised to f32. Spare room and rows taken back are no part of it.
    pub fn contents(&self) -> Result<Vec<f32>> {
        match self {
            Self::Kv(state) => state.contents(),
            Self::Window(state) => state.contents(),
            Self::Conv(state) => state.window(),
            Self::Delta(state) => state.contents(),
        }
    }
}

impl SequenceState {
    /// [`LayerState::contents`] of every layer.
    pub fn contents(&self) -> Result<Vec<Vec<f32>>> {
        self.layer_states().iter().map(LayerState::contents).collect()
    }
}
