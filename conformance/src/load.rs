//! Loads checkpoints through the registry, on this machine's executor.

use mlxcel_core::{
    Result,
    checkpoint::Checkpoint,
    family::{self, Drafter, Target},
    nn::Executor,
};

/// A target of any linked family.
pub fn target(checkpoint: Checkpoint) -> Result<Box<dyn Target>> {
    family::load_target(checkpoint, Executor::detect()?)
}

/// A drafter of any linked family, bound to `target`.
pub fn drafter(checkpoint: Checkpoint, target: &dyn Target) -> Result<Box<dyn Drafter>> {
    family::load_drafter(checkpoint, target, Executor::detect()?)
}
