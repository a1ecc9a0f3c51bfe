//! The window of a short convolution.

mod cpu;
mod mlx;

use mlx_rs::Array;

use self::{cpu::CpuWindow, mlx::MlxWindow};
use super::{StateError, block::Rows};
use crate::{Error, Kept, Result, Width};

/// The last `K − 1` gated inputs of a sequence, `[K−1, channels]`, zeros before its first row. While a block is open
/// also the block's rows: taking rows back is a slice of both (spec 1.4).
#[derive(Clone, Debug)]
pub struct ConvState {
    /// `K − 1`
    window_rows: usize,
    channels: usize,
    rows: Rows,
    /// `None` before the first row, which tells the executor.
    store: Option<Store>,
}

#[derive(Clone, Debug)]
enum Store {
    Mlx(MlxWindow),
    Cpu(CpuWindow),
}

impl ConvState {
    /// An empty state for a kernel of `taps` over `channels`.
    pub fn new(taps: usize, channels: usize) -> Self {
        Self { window_rows: taps - 1, channels, rows: Rows::default(), store: None }
    }

    /// Bytes that it takes, by estimate.
    pub(super) fn bytes(&self) -> usize {
        self.window_rows * self.channels * size_of::<f32>()
    }

    /// Rows seen, those of an open block included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no row was seen.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a block is open.
    pub(super) fn is_open(&self) -> bool {
        self.rows.is_open()
    }

    /// Opens a block of at most `width` rows.
    pub fn begin(&mut self, width: Width) -> Result<()> {
        Ok(self.rows.begin(width)?)
    }

    /// Keeps the first `kept` rows of the open block and drops the rest.
    pub fn commit(&mut self, kept: Kept) -> Result<()> {
        self.rows.commit(kept)?;
        match &mut self.store {
            Some(Store::Mlx(store)) => store.commit(kept.0, self.window_rows),
            Some(Store::Cpu(store)) => {
                store.commit(kept.0 * self.channels);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Appends gated inputs `[rows, channels]`; gives the window in front of them with them, `[K−1 + rows, channels]`.
    pub(crate) fn append_mlx(&mut self, gated: &Array) -> Result<Array> {
        if gated.ndim() != 2 || gated.dim(1) != self.channels as i32 {
            let expected = vec![-1, self.channels as i32];
            return Err(
                StateError::Shape { what: "gated input", found: gated.shape().to_vec(), expected }.into()
            );
        }
        self.rows.append(gated.dim(0) as usize)?;
        if self.store.is_none() {
            self.store = Some(Store::Mlx(MlxWindow::new(self.window_rows, gated)?));
        }
        match &mut self.store {
            Some(Store::Mlx(store)) => store.append(gated, self.window_rows, self.rows.is_open()),
            _ => Err(Error::Executors),
        }
    }

    /// Appends `rows` gated inputs: `fill` gets `[K−1 + rows, channels]`, the window in front, and writes the rows
    /// behind it.
    pub(crate) fn append_cpu(&mut self, rows: usize, fill: impl FnOnce(&mut [f32])) -> Result<()> {
        self.rows.append(rows)?;
        let window = self.window_rows * self.channels;
        match self.store.get_or_insert_with(|| Store::Cpu(CpuWindow::new(window))) {
            Store::Cpu(store) => {
                store.append(rows * self.channels, self.rows.is_open(), fill);
                Ok(())
            }
            Store::Mlx(_) => Err(Error::Executors),
        }
    }

    /// Computes what is pending.
    pub(crate) fn eval(&self) -> Result<()> {
        match &self.store {
            Some(Store::Mlx(store)) => store.eval(),
            Some(Store::Cpu(_)) | None => Ok(()),
        }
    }

    /// The committed window in f32, row after row; empty before the first row. For checks.
    pub fn window(&self) -> Result<Vec<f32>> {
        match &self.store {
            Some(Store::Mlx(store)) => store.to_host(),
            Some(Store::Cpu(store)) => Ok(store.window().to_vec()),
            None => Ok(Vec::new()),
        }
    }
}
