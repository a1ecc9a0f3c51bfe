//! Embedding tables.

use mlx_rs::Array;

use super::{Linear, Loader, Tensor, mlx};
use crate::{Error, Result, TokenId};

/// A table of `vocab` rows. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[vocab, width]`
    table: Array,
}

impl Embedding {
    /// The table at `path` (`path.weight`, `[vocab, width]`, dense or quantized).
    pub fn load(loader: &Loader<'_>, path: &str, vocab: usize, width: usize) -> Result<Self> {
        let values = loader.linear(path, vocab, width)?.to_f32();
        Ok(Self { table: mlx::matrix(&values, vocab, width, loader.executor())? })
    }

    /// Rows of the table.
    pub fn vocab(&self) -> usize {
        self.table.dim(0) as usize
    }

    /// Values in a row.
    pub fn width(&self) -> usize {
        self.table.dim(1) as usize
    }

    /// The rows of `tokens`, `[tokens, width]`. MLX reads garbage for an index out of range: ids are checked here.
    pub fn lookup(&self, tokens: &[TokenId]) -> Result<Tensor> {
        if let Some(token) = tokens.iter().find(|token| token.index() >= self.vocab()) {
            return Err(Error::TokenOutOfRange { token: *token, vocab: self.vocab() });
        }
        Ok(Tensor::wrap(self.table.take_axis(mlx::ids(tokens), 0)?))
    }

    /// The table as an output matrix (tied head).
    pub fn to_linear(&self) -> Result<Linear> {
        Linear::from_table(&self.table)
    }
}
