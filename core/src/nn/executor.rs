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

impl Executor {
    /// Its name in flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Mlx(Dtype::Float32) => "mlx-f32",
            Self::Mlx(Dtype::Bfloat16) => "mlx-bf16",
            Self::Mlx(Dtype::Float16) => "mlx-f16",
            Self::Mlx(_) => "mlx",
        }
    }

    /// Whether a row's bits never depend on the rows that come with it, so that a block gives what a chain gives.
    pub fn is_row_exact(self) -> bool {
        self == Self::Cpu
    }

    /// Type of keys and values.
    pub fn cache_dtype(self) -> &'static str {
        match self {
            Self::Mlx(Dtype::Bfloat16) => "bf16",
            Self::Mlx(Dtype::Float16) => "f16",
            Self::Cpu | Self::Mlx(_) => "f32",
        }
    }
}

/// The instruction set of the CPU kernels.
pub fn isa() -> &'static str {
    mlxcel_kernels::isa().name()
}

/// Threads of the CPU kernels.
pub fn threads() -> usize {
    mlxcel_kernels::pool().threads()
}

/// Sets the number of threads of the CPU kernels, 1 or more; without it, one a physical core. It changes no result.
pub fn set_threads(threads: usize) {
    mlxcel_kernels::set_threads(threads);
}
