//! Weights from a checkpoint onto an executor.

use super::Executor;
use crate::{
    Result,
    checkpoint::{Checkpoint, LinearTensors},
};

/// A checkpoint together with the executor its weights are loaded for.
#[derive(Clone, Copy)]
pub struct Loader<'a> {
    checkpoint: &'a Checkpoint,
    executor: Executor,
}

impl<'a> Loader<'a> {
    /// Loads weights of `checkpoint` for `executor`.
    pub fn new(checkpoint: &'a Checkpoint, executor: Executor) -> Self {
        Self { checkpoint, executor }
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> &'a Checkpoint {
        self.checkpoint
    }

    /// The executor.
    pub fn executor(&self) -> Executor {
        self.executor
    }

    /// The vector `name`, `[len]`, in f32.
    pub fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        Ok(self.checkpoint.vector(name, len)?)
    }

    /// The depthwise kernel `name` over `channels`, `[channels, taps]`. Files store it as `[channels, 1, taps]` (HF) or
    /// `[channels, taps, 1]` (MLX); both lie in memory alike (spec 1.2).
    pub fn conv_kernel(&self, name: &str, channels: usize, taps: usize) -> Result<Vec<f32>> {
        let tensor = self.checkpoint.tensor(name)?;
        let shape = if tensor.shape.get(1) == Some(&1) { [channels, 1, taps] } else { [channels, taps, 1] };
        Ok(tensor.expect_shape(&shape)?.to_f32()?)
    }

    /// The matrix at `path`, `[out, in]`, dense or quantized.
    pub(crate) fn linear(&self, path: &str, out: usize, input: usize) -> Result<LinearTensors<'a>> {
        Ok(self.checkpoint.linear(path, out, input)?)
    }

    /// Lets go of tensors that are on the executor now, so that no weight is in memory twice for long.
    pub(super) fn release(&self, tensors: &[LinearTensors<'_>]) {
        for tensors in tensors {
            self.checkpoint.release(tensors);
        }
    }
}
