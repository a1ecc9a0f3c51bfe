//! What a state holds, on the host: how checks compare two states, whatever their buffers look like.

use mlx_rs::{Array, Dtype, ops::indexing::TryIndexOp};

use super::{ConvState, KvState, LayerState, SequenceState};
use crate::{Error, Result};

impl KvState {
    /// The keys held, then the values, `[kv_heads, len, head_dim]` each, raised to f32. Spare room and rows taken back
    /// are no part of it.
    pub fn contents(&self) -> Result<Vec<f32>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let (keys, values) = self.rows()?;
        let mut contents = host(&keys)?;
        contents.extend(host(&values)?);
        Ok(contents)
    }
}

impl ConvState {
    /// The window that the next row sees, `[K−1, channels]`, raised to f32; zeros before the first row.
    pub fn contents(&self) -> Result<Vec<f32>> {
        match self.held() {
            Some(rows) => {
                let (end, window) = (rows.dim(0), self.window_rows() as i32);
                host(&rows.try_index((end - window..end, ..))?)
            }
            None => Ok(vec![0.0; self.window_rows() * self.channels()]),
        }
    }
}

impl LayerState {
    /// Everything that later rows can see of this layer, raised to f32.
    pub fn contents(&self) -> Result<Vec<f32>> {
        match self {
            Self::Kv(state) => state.contents(),
            Self::Conv(state) => state.contents(),
        }
    }
}

impl SequenceState {
    /// Everything that later rows can see, layer by layer, raised to f32.
    pub fn contents(&self) -> Result<Vec<Vec<f32>>> {
        self.layer_states().iter().map(LayerState::contents).collect()
    }
}

fn host(array: &Array) -> Result<Vec<f32>> {
    let array = array.as_dtype(Dtype::Float32)?.contiguous()?;
    Ok(array.try_as_slice::<f32>().map_err(|error| Error::Mlx(error.to_string()))?.to_vec())
}
