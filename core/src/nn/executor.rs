//! Where a model runs.

use mlx_rs::{Array, Device, DeviceType, Dtype, ops};

use crate::Result;

/// The executor of a model: chosen once, at load, by device. A family never sees the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// MLX's own operators on its default device, with weights and activations of this dtype.
    Mlx(Dtype),
    /// Row-exact CPU kernels: weights as the checkpoint has them, activations in f32.
    Cpu,
}

impl Executor {
    /// MLX's operators in f32, on any device: the reference that the kernels are compared with.
    pub const MLX_F32: Self = Self::Mlx(Dtype::Float32);

    /// MLX's operators in bf16, as most checkpoints are stored.
    pub const MLX_BF16: Self = Self::Mlx(Dtype::Bfloat16);

    /// The executor for this machine: MLX where it has a GPU, else the CPU kernels.
    ///
    /// Also runs one trivial fallible operation: mlx-c's first error handler ends the process, and mlx-rs replaces it
    /// on the first fallible call only.
    pub fn detect() -> Result<Self> {
        let one = Array::from_f32(1.0);
        ops::add(&one, &one)?.eval()?;
        Ok(match Device::try_default()?.get_type()? {
            DeviceType::Gpu => Self::MLX_BF16,
            DeviceType::Cpu => Self::Cpu,
        })
    }
}

/// Sets the number of threads of the CPU kernels, 1 or more; without it, one a physical core. It changes no result.
pub fn set_threads(threads: usize) {
    mlxcel_kernels::set_threads(threads);
}
