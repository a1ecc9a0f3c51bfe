//! Rotary position embedding.

use mlxcel_kernels::rope;

/// Which elements of a head form a rotated pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// `(i, i + dims/2)`: NeoX, nearly every model.
    HalfSplit,
    /// `(2i, 2i + 1)`: MLX calls it traditional; LFM2.5's DSpark drafters (spec 0.2).
    Interleaved,
}

/// Rotary position embedding over the first `dims` elements of each head: angle = position · base^(−2i/dims), in f32.
#[derive(Clone, Debug)]
pub struct Rope {
    pub(super) base: f32,
    pub(super) dims: usize,
    pub(super) style: RopeStyle,
    table: rope::Rope,
}

impl Rope {
    /// A rotation of the first `dims` elements (an even number) with frequencies of `base`, a positive number.
    pub fn new(base: f32, dims: usize, style: RopeStyle) -> Self {
        let kernel_style = match style {
            RopeStyle::HalfSplit => rope::RopeStyle::HalfSplit,
            RopeStyle::Interleaved => rope::RopeStyle::Interleaved,
        };
        Self { base, dims, style, table: rope::Rope::new(f64::from(base), dims, kernel_style) }
    }

    /// The CPU kernel.
    pub(super) fn cpu(&self) -> &rope::Rope {
        &self.table
    }
}
