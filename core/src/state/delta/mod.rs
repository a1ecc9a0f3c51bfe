//! The state of a gated delta net.

mod cpu;
mod mlx;

use mlx_rs::Array;
use mlxcel_kernels::{Exec, delta::DeltaRows};

use self::{cpu::CpuMemory, mlx::MlxMemory};
use super::{ConvState, StateError};
use crate::{
    Error, Kept, Result, Width,
    nn::{DeltaDims, mlx::DeltaArrays},
};

/// The window of the convolution, and the f32 state of every value head, `Dk · Dv` numbers each, zeros before the first
/// row.
///
/// The recurrence cannot be undone, so there are two buffers: a block's first step reads the committed one and
/// writes the other. All rows kept: the two change places. Some kept: they are replayed from the committed one, by the
/// step that decoding takes, out of the block's convolved q, k, v and its gates. None kept: nothing to do. Costs twice the
/// state and a few rows; a partly kept block costs one scan of the kept rows and no product.
#[derive(Clone, Debug)]
pub struct DeltaState {
    dims: DeltaDims,
    window: ConvState,
    /// `None` before the first row, which tells the executor.
    memory: Option<Memory>,
}

#[derive(Clone, Debug)]
enum Memory {
    Mlx(MlxMemory),
    Cpu(CpuMemory),
}

impl DeltaState {
    /// An empty state for a net of `dims`.
    pub(crate) fn new(dims: DeltaDims) -> Self {
        Self { dims, window: ConvState::new(dims.taps, dims.qkv_width()), memory: None }
    }

    /// Rows seen, those of an open block included.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Bytes that it takes, by estimate.
    pub(super) fn bytes(&self) -> usize {
        let DeltaDims { value_heads, key_dim, value_dim, .. } = self.dims;
        self.window.bytes() + 2 * value_heads * key_dim * value_dim * size_of::<f32>()
    }

    /// Whether no row was seen.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Opens a block of at most `width` rows.
    pub fn begin(&mut self, width: Width) -> Result<()> {
        self.window.begin(width)
    }

    /// Keeps the first `kept` rows of the open block and drops the rest.
    pub fn commit(&mut self, kept: Kept) -> Result<()> {
        let received = match &self.memory {
            Some(Memory::Mlx(memory)) => memory.received(),
            Some(Memory::Cpu(memory)) => memory.received(self.dims),
            None => 0,
        };
        if self.window.is_open() && kept.0 > received {
            return Err(StateError::KeptTooMany { kept: kept.0, received }.into());
        }
        self.window.commit(kept)?;
        match &mut self.memory {
            Some(Memory::Mlx(memory)) => memory.commit(self.dims, kept.0),
            Some(Memory::Cpu(memory)) => {
                memory.commit(&Exec::current(), self.dims, kept.0);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The window of the convolution: it takes a span's rows before the recurrence does.
    pub(crate) fn window(&mut self) -> &mut ConvState {
        &mut self.window
    }

    /// Runs the recurrence over `rows`, which the window has taken; `out` is `[rows, Hv · Dv]`.
    pub(crate) fn step_cpu(&mut self, exec: &Exec, rows: DeltaRows<'_>, out: &mut [f32]) -> Result<()> {
        let dims = self.dims;
        match self.memory.get_or_insert_with(|| Memory::Cpu(CpuMemory::new(dims))) {
            Memory::Cpu(memory) => {
                memory.step(exec, dims, rows, self.window.is_open(), out);
                Ok(())
            }
            Memory::Mlx(_) => Err(Error::Executors),
        }
    }

    /// Runs the recurrence over `rows`, which the window has taken; gives `[rows, Hv · Dv]`.
    pub(crate) fn step_mlx(&mut self, rows: DeltaArrays) -> Result<Array> {
        if self.memory.is_none() {
            self.memory = Some(Memory::Mlx(MlxMemory::new(self.dims)?));
        }
        match &mut self.memory {
            Some(Memory::Mlx(memory)) => memory.step(self.dims, rows, self.window.is_open()),
            _ => Err(Error::Executors),
        }
    }

    /// Computes what is pending.
    pub(crate) fn eval(&self) -> Result<()> {
        self.window.eval()?;
        match &self.memory {
            Some(Memory::Mlx(memory)) => memory.eval(),
            Some(Memory::Cpu(_)) | None => Ok(()),
        }
    }

    /// The committed window, then the committed state of every value head, in f32; empty before the first row. For
    /// checks.
    pub fn contents(&self) -> Result<Vec<f32>> {
        let mut contents = self.window.window()?;
        match &self.memory {
            Some(Memory::Mlx(memory)) => contents.extend(memory.to_host()?),
            Some(Memory::Cpu(memory)) => contents.extend_from_slice(memory.committed()),
            None => {}
        }
        Ok(contents)
    }
}

#[cfg(test)]
mod tests;
