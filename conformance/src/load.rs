//! Loads checkpoints through the registry, on this machine's executor.

use mlxcel_core::{
    Result,
    checkpoint::Checkpoint,
    family::{self, Drafter, Target},
    nn::Executor,
};

/// The executor of a name: `cpu`, `mlx-f32`, `mlx-bf16`.
pub fn executor(name: &str) -> Option<Executor> {
    match name {
        "cpu" => Some(Executor::Cpu),
        "mlx-f32" => Some(Executor::MLX_F32),
        "mlx-bf16" => Some(Executor::MLX_BF16),
        _ => None,
    }
}

/// A target of any linked family.
pub fn target(checkpoint: Checkpoint) -> Result<Box<dyn Target>> {
    family::load_target(checkpoint, Executor::detect()?)
}

/// A drafter of any linked family, bound to `target`.
pub fn drafter(checkpoint: Checkpoint, target: &dyn Target) -> Result<Box<dyn Drafter>> {
    family::load_drafter(checkpoint, target, Executor::detect()?)
}
