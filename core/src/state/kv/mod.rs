//! Keys and values of an attention layer.

mod mlx;

use mlx_rs::Array;
use mlxcel_kernels::{
    Heads,
    attention::{KvBuffer, KvDtype},
};

use self::mlx::MlxKv;
use super::{StateError, block::Rows};
use crate::{Error, Kept, Result, Width};

/// All keys and values of a sequence in one attention layer. Rows past [`Self::len`] are never read: taking rows back
/// only moves the end.
#[derive(Clone, Debug)]
pub struct KvState {
    kv_heads: usize,
    head_dim: usize,
    rows: Rows,
    /// `None` before the first row, which tells the executor.
    store: Option<Store>,
}

#[derive(Clone, Debug)]
enum Store {
    Mlx(MlxKv),
    Cpu(KvBuffer),
}

impl KvState {
    /// An empty state for `kv_heads` heads of `head_dim`.
    pub fn new(kv_heads: usize, head_dim: usize) -> Self {
        Self { kv_heads, head_dim, rows: Rows::default(), store: None }
    }

    /// Rows held, those of an open block included.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no row is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Opens a block of at most `width` rows.
    pub fn begin(&mut self, width: Width) -> Result<()> {
        Ok(self.rows.begin(width)?)
    }

    /// Keeps the first `kept` rows of the open block and drops the rest.
    pub fn commit(&mut self, kept: Kept) -> Result<()> {
        self.rows.commit(kept)?;
        if let Some(Store::Cpu(buffer)) = &mut self.store {
            buffer.truncate(self.rows.len());
        }
        Ok(())
    }

    /// Appends keys and values of shape `[1, kv_heads, rows, head_dim]`.
    pub(crate) fn append_mlx(&mut self, keys: &Array, values: &Array) -> Result<()> {
        for (what, array) in [("keys", keys), ("values", values)] {
            let (found, rows) = (array.shape(), keys.shape().get(2).copied().unwrap_or(0));
            if *found != [1, self.kv_heads as i32, rows, self.head_dim as i32] {
                let expected = vec![1, self.kv_heads as i32, -1, self.head_dim as i32];
                return Err(StateError::Shape { what, found: found.to_vec(), expected }.into());
            }
        }
        let start = self.rows.len();
        self.rows.append(keys.dim(2) as usize)?;
        match self.store.get_or_insert_with(|| Store::Mlx(MlxKv::default())) {
            Store::Mlx(store) => store.write(start, keys, values),
            Store::Cpu(_) => Err(Error::Executors),
        }
    }

    /// The keys and values held, `[1, kv_heads, len, head_dim]` each.
    pub(crate) fn rows_mlx(&self) -> Result<(Array, Array)> {
        match &self.store {
            Some(Store::Mlx(store)) => store.read(self.len()),
            Some(Store::Cpu(_)) => Err(Error::Executors),
            None => Err(StateError::Empty.into()),
        }
    }

    /// Appends keys and values `[rows, kv_heads, head_dim]`; gives all that are held.
    pub(crate) fn append_cpu(&mut self, keys: Heads<'_>, values: Heads<'_>) -> Result<&KvBuffer> {
        for (what, heads) in [("keys", keys), ("values", values)] {
            if (heads.rows(), heads.heads(), heads.dim()) != (keys.rows(), self.kv_heads, self.head_dim) {
                let found = vec![heads.rows() as i32, heads.heads() as i32, heads.dim() as i32];
                let expected = vec![-1, self.kv_heads as i32, self.head_dim as i32];
                return Err(StateError::Shape { what, found, expected }.into());
            }
        }
        let start = self.rows.len();
        self.rows.append(keys.rows())?;
        let (kv_heads, head_dim) = (self.kv_heads, self.head_dim);
        let empty = || Store::Cpu(KvBuffer::new(kv_heads, head_dim, KvDtype::F32));
        match self.store.get_or_insert_with(empty) {
            Store::Cpu(buffer) => {
                buffer.append(start, keys, values);
                Ok(buffer)
            }
            Store::Mlx(_) => Err(Error::Executors),
        }
    }

    /// The keys and values held.
    pub(crate) fn rows_cpu(&self) -> Result<&KvBuffer> {
        match &self.store {
            Some(Store::Cpu(buffer)) => Ok(buffer),
            Some(Store::Mlx(_)) => Err(Error::Executors),
            None => Err(StateError::Empty.into()),
        }
    }

    /// The keys held, then the values, each by head, row and element, raised to f32. For checks.
    pub fn contents(&self) -> Result<Vec<f32>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        match &self.store {
            Some(Store::Mlx(store)) => {
                let (keys, values) = store.read(self.len())?;
                let (mut contents, values) =
                    (crate::nn::mlx::to_host(&keys)?, crate::nn::mlx::to_host(&values)?);
                contents.extend(values);
                Ok(contents)
            }
            Some(Store::Cpu(buffer)) => {
                let positions = |head| buffer.positions().map(move |position| (position, head));
                let rows = (0..self.kv_heads).flat_map(positions);
                let (keys, values): (Vec<_>, Vec<_>) =
                    rows.map(|(position, head)| buffer.row(position, head)).unzip();
                Ok(keys.into_iter().chain(values).flatten().collect())
            }
            None => Ok(Vec::new()),
        }
    }

    /// Computes what is pending.
    pub(crate) fn eval(&self) -> Result<()> {
        match &self.store {
            Some(Store::Mlx(store)) => store.eval(),
            Some(Store::Cpu(_)) | None => Ok(()),
        }
    }

    /// Where the buffer of the keys lies in memory.
    #[cfg(test)]
    pub(crate) fn buffer_address(&self) -> Option<usize> {
        match &self.store {
            Some(Store::Mlx(store)) => store.address(),
            Some(Store::Cpu(_)) | None => None,
        }
    }
}
