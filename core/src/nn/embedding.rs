//! Embedding tables.

use mlx_rs::Array;

use super::{Executor, Linear, Loader, Tensor, cpu, mlx};
use crate::{Error, Result, TokenId};

/// A table of `vocab` rows. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Embedding {
    table: Table,
    vocab: usize,
    width: usize,
}

/// The table, by executor.
#[derive(Clone, Debug)]
pub(super) enum Table {
    /// `[vocab, width]`
    Mlx(Array),
    /// Packed as an output matrix, which a tied head shares; a look-up gathers from it.
    Cpu(cpu::Linear),
}

impl Embedding {
    /// The table at `path` (`path.weight`, `[vocab, width]`, dense or quantized).
    pub fn load(loader: &Loader<'_>, path: &str, vocab: usize, width: usize) -> Result<Self> {
        let tensors = loader.linear(path, vocab, width)?;
        let table = match loader.executor() {
            Executor::Mlx(dtype) => Table::Mlx(mlx::matrix(&tensors.to_f32(), vocab, width, dtype)?),
            Executor::Cpu => Table::Cpu(cpu::Linear::pack(&[tensors], width)?),
        };
        loader.release(&[tensors]);
        Ok(Self { table, vocab, width })
    }

    /// Rows of the table.
    pub fn vocab(&self) -> usize {
        self.vocab
    }

    /// Values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The rows of `tokens`, `[tokens, width]`. MLX reads garbage for an index out of range: ids are checked here.
    pub fn lookup(&self, tokens: &[TokenId]) -> Result<Tensor> {
        if let Some(token) = tokens.iter().find(|token| token.index() >= self.vocab) {
            return Err(Error::TokenOutOfRange { token: *token, vocab: self.vocab });
        }
        match &self.table {
            Table::Mlx(table) => Ok(Tensor::mlx(table.take_axis(mlx::ids(tokens), 0)?)),
            Table::Cpu(table) => {
                let mut result = Ok(());
                let rows = cpu::Rows::build(tokens.len(), self.width, |out| {
                    let mut rows = tokens.iter().zip(out.chunks_exact_mut(self.width));
                    result = rows.try_for_each(|(token, out)| table.row(token.index(), out));
                });
                result.map(|()| Tensor::cpu(rows))
            }
        }
    }

    /// The table as an output matrix (tied head).
    pub fn to_linear(&self) -> Result<Linear> {
        Linear::tied(self)
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }
}
