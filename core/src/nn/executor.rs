//! Where a model runs.

use mlx_rs::{Array, Dtype, ops};

use crate::Result;

/// The executor of a model: chosen once, at load, by device. A family never sees the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// MLX's own operators on its default device, with activations of this dtype.
    Mlx(Dtype),
}

impl Executor {
    /// The executor for this machine.
    ///
    /// Also runs one trivial fallible operation: mlx-c's first error handler ends the process, and mlx-rs replaces it
    /// on the first fallible call only.
    pub fn detect() -> Result<Self> {
        let one = Array::from_f32(1.0);
        ops::add(&one, &one)?.eval()?;
        Ok(Self::Mlx(Dtype::Float32))
    }
}
