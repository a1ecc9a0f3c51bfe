//! Activations.

use std::{borrow::Cow, ops::Range};

use mlx_rs::Array;

use super::{Executor, cpu, mlx};
use crate::{Error, Result};

/// Rows of activations, `[rows, width]`, on the model's executor. Cloning is cheap: the values are shared, and whoever
/// changes a shared tensor changes a copy.
#[derive(Clone, Debug)]
pub struct Tensor(pub(crate) Repr);

/// The values, by executor.
#[derive(Clone, Debug)]
pub(crate) enum Repr {
    /// `[rows, width]`, perhaps not computed yet.
    Mlx(Array),
    /// f32 in memory.
    Cpu(cpu::Rows),
}

/// Calls the same function of either executor with the tensor's values.
macro_rules! both {
    ($tensor:expr => $function:ident ( $($argument:expr),* )) => {
        match &$tensor.0 {
            Repr::Mlx(array) => mlx::$function(array, $($argument),*).map(Tensor::mlx),
            Repr::Cpu(rows) => cpu::$function(rows, $($argument),*).map(Tensor::cpu),
        }
    };
}
pub(super) use both;

impl Tensor {
    /// Rows of host values, for a model on `executor`; `values.len()` must be `rows × width`.
    pub fn from_host(values: &[f32], rows: usize, width: usize, executor: Executor) -> Result<Self> {
        if values.len() != rows * width {
            return Err(Error::shape("values of a tensor", values.len(), rows * width));
        }
        Ok(match executor {
            Executor::Mlx(dtype) => Self::mlx(mlx::matrix(values, rows, width, dtype)?),
            Executor::Cpu => Self::cpu(cpu::Rows::build(rows, width, |out| out.copy_from_slice(values))),
        })
    }

    pub(crate) fn mlx(array: Array) -> Self {
        debug_assert_eq!(array.ndim(), 2, "activations are [rows, width]");
        Self(Repr::Mlx(array))
    }

    pub(crate) fn cpu(rows: cpu::Rows) -> Self {
        Self(Repr::Cpu(rows))
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        match &self.0 {
            Repr::Mlx(array) => array.dim(0) as usize,
            Repr::Cpu(rows) => rows.rows(),
        }
    }

    /// Values in a row.
    pub fn width(&self) -> usize {
        match &self.0 {
            Repr::Mlx(array) => array.dim(1) as usize,
            Repr::Cpu(rows) => rows.width(),
        }
    }

    /// `self ← self + other`, element by element.
    pub fn add_assign(&mut self, other: &Self) -> Result<()> {
        if (self.rows(), self.width()) != (other.rows(), other.width()) {
            return Err(Error::shape("width of a sum", other.width(), self.width()));
        }
        match (&mut self.0, &other.0) {
            (Repr::Mlx(a), Repr::Mlx(b)) => *a = mlx_rs::ops::add(&*a, b)?,
            (Repr::Cpu(a), Repr::Cpu(b)) => a.add_assign(b),
            _ => return Err(Error::Executors),
        }
        Ok(())
    }

    /// Adds `values`, `[width]`, to every row.
    pub(super) fn add_to_rows(&mut self, values: &[f32]) -> Result<()> {
        if values.len() != self.width() {
            return Err(Error::shape("width of a bias", values.len(), self.width()));
        }
        match &mut self.0 {
            Repr::Mlx(array) => *array = mlx_rs::ops::add(&*array, mlx::vector(values, array.dtype())?)?,
            Repr::Cpu(rows) => rows.add_to_rows(values),
        }
        Ok(())
    }

    /// The rows of `range`, sharing the values.
    pub fn slice_rows(&self, range: Range<usize>) -> Result<Self> {
        if range.end > self.rows() || range.start > range.end {
            return Err(Error::shape("row range", range.end, self.rows()));
        }
        both!(self => slice_rows(range))
    }

    /// The columns of `range`.
    pub fn slice_features(&self, range: Range<usize>) -> Result<Self> {
        if range.end > self.width() || range.start > range.end {
            return Err(Error::shape("feature range", range.end, self.width()));
        }
        both!(self => slice_features(range))
    }

    /// One after the other: `[Σ rows, width]`.
    pub fn concat_rows(parts: &[Self]) -> Result<Self> {
        match parts {
            [only] => Ok(only.clone()),
            [] => Err(Error::shape("parts of a tensor", 0, 1)),
            [Self(Repr::Mlx(_)), ..] => mlx::concat(&arrays(parts)?, 0).map(Self::mlx),
            [Self(Repr::Cpu(_)), ..] => cpu::concat_rows(&rows(parts)?).map(Self::cpu),
        }
    }

    /// Side by side: `[rows, Σ width]`.
    pub fn concat_features(parts: &[Self]) -> Result<Self> {
        match parts {
            [only] => Ok(only.clone()),
            [] => Err(Error::shape("parts of a tensor", 0, 1)),
            [Self(Repr::Mlx(_)), ..] => mlx::concat(&arrays(parts)?, 1).map(Self::mlx),
            [Self(Repr::Cpu(_)), ..] => cpu::concat_features(&rows(parts)?).map(Self::cpu),
        }
    }

    /// Computes now. Everything that outlives a round is evaluated: a lazy array keeps its inputs alive and fails on
    /// another thread.
    pub fn eval(&self) -> Result<()> {
        match &self.0 {
            Repr::Mlx(array) => Ok(array.eval()?),
            Repr::Cpu(_) => Ok(()),
        }
    }

    /// The values as they lie in memory on the host, row after row: equal means equal bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        match &self.0 {
            Repr::Mlx(array) => mlx::to_bytes(array),
            Repr::Cpu(rows) => Ok(rows.values().iter().flat_map(|value| value.to_le_bytes()).collect()),
        }
    }

    /// The values in f32 on the host, row after row.
    pub fn to_host(&self) -> Result<Cow<'_, [f32]>> {
        match &self.0 {
            Repr::Mlx(array) => mlx::to_host(array).map(Cow::Owned),
            Repr::Cpu(rows) => Ok(Cow::Borrowed(rows.values())),
        }
    }
}

fn arrays(parts: &[Tensor]) -> Result<Vec<&Array>> {
    parts
        .iter()
        .map(|part| match &part.0 {
            Repr::Mlx(array) => Ok(array),
            Repr::Cpu(_) => Err(Error::Executors),
        })
        .collect()
}

fn rows(parts: &[Tensor]) -> Result<Vec<&cpu::Rows>> {
    parts
        .iter()
        .map(|part| match &part.0 {
            Repr::Cpu(rows) => Ok(rows),
            Repr::Mlx(_) => Err(Error::Executors),
        })
        .collect()
}
