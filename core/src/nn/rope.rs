//! Rotary position embedding.

use mlx_rs::{Array, fast};

use crate::{Position, Result};

/// Which elements of a head form a rotated pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// `(i, i + dims/2)`: NeoX, nearly every model.
    HalfSplit,
    /// `(2i, 2i + 1)`: MLX calls it traditional; LFM2.5's DSpark drafters (spec 0.2).
    Interleaved,
}

/// Rotary position embedding over the first `dims` elements of each head: angle = position · base^(−2i/dims), in f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies (`rope_theta`).
    pub base: f32,
    /// Rotated elements of a head, even; the rest passes through.
    pub dims: usize,
    /// Pairing.
    pub style: RopeStyle,
}

impl Rope {
    /// Rotates heads `[1, heads, rows, head_dim]`, the first row at `start`.
    pub(crate) fn apply(&self, heads: &Array, start: Position) -> Result<Array> {
        let traditional = self.style == RopeStyle::Interleaved;
        Ok(fast::rope(heads, self.dims as i32, traditional, self.base, 1.0, start.0 as i32, None::<&Array>)?)
    }
}
