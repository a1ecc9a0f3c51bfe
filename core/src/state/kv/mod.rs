//! Keys and values of an attention layer.

mod mlx;

use std::ops::Range;

use mlx_rs::Array;
use mlxcel_kernels::{
    Heads,
    attention::{KvBuffer, KvDtype},
};

use self::mlx::MlxKv;
use super::{StateError, block::Rows};
use crate::{Error, Kept, Position, Result, Width, nn::Mask};

/// Keys and values of a sequence in one attention layer, in temporal order by absolute position: all of them, or those
/// that a window still sees. Rows past [`Self::len`] are never read: taking rows back only moves the end.
#[derive(Clone, Debug)]
pub struct KvState {
    kv_heads: usize,
    head_dim: usize,
    rows: Rows,
    /// Committed rows that later rows may see.
    keep: usize,
    /// Rows held beyond those and the newest one. Appends move nothing until they are used up.
    slack: usize,
    /// Position of the first row held.
    first: usize,
    /// `None` before the first row, which tells the executor.
    store: Option<Store>,
}

/// Rows that a window holds beyond those that blocks of up to `width` rows see: enough that all of a block can be taken
/// back, and that the window moves seldom.
fn slack(width: Width) -> usize {
    (8 * width.rows()).clamp(32, 128).max(width.rows())
}

#[derive(Clone, Debug)]
enum Store {
    Mlx(MlxKv),
    Cpu(KvBuffer),
}

impl KvState {
    /// An empty state for `kv_heads` heads of `head_dim`.
    pub fn new(kv_heads: usize, head_dim: usize) -> Self {
        let (keep, slack) = (usize::MAX, usize::MAX);
        Self { kv_heads, head_dim, rows: Rows::default(), keep, slack, first: 0, store: None }
    }

    /// As [`Self::new`], for layers that see at most `keep` rows before a query, and blocks of up to `width` rows: older
    /// rows are dropped when no open block can bring their reader back.
    pub fn windowed(kv_heads: usize, head_dim: usize, keep: usize, width: Width) -> Self {
        Self { keep, slack: slack(width), ..Self::new(kv_heads, head_dim) }
    }

    /// Rows taken, those of an open block and dropped ones included: the position of the next row.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes that it takes once it holds `rows` rows, by estimate: values count as f32.
    pub(crate) fn bytes(&self, rows: usize) -> usize {
        let held = rows.min(self.keep.saturating_add(1).saturating_add(self.slack));
        2 * self.kv_heads * self.head_dim * size_of::<f32>() * held
    }

    /// Whether no row is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Positions of the rows held: all rows, or the newest of them.
    pub fn positions(&self) -> Range<usize> {
        self.first..self.len()
    }

    /// Drops the rows that no later row sees, once there is no room for `incoming` more. Rows that come together still see
    /// what was there before the first of them, so this happens before they are appended; never inside a block, which may
    /// be taken back.
    fn make_room(&mut self, incoming: usize) -> Result<()> {
        let room = self.keep.saturating_add(1).saturating_add(self.slack);
        if self.rows.is_open() || self.positions().len() + incoming <= room {
            return Ok(());
        }
        self.first = self.first.max(self.len().saturating_sub(self.keep));
        match &mut self.store {
            Some(Store::Mlx(store)) => store.compact(self.first..self.rows.len(), self.slack + 1),
            Some(Store::Cpu(buffer)) => {
                buffer.drop_front(self.first);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Takes `rows` rows as seen without holding them: `keep` rows or more follow at once, so that nobody misses these.
    pub fn skip(&mut self, rows: usize) -> Result<()> {
        if self.rows.is_open() {
            return Err(StateError::AlreadyOpen { rows }.into());
        }
        if rows > 0 {
            self.rows.append(rows)?;
            (self.first, self.store) = (self.rows.len(), None);
        }
        Ok(())
    }

    /// Opens a block of at most `width` rows. A window takes blocks of up to `slack + 1` rows: its own oldest row must
    /// still be there when all of them are taken back.
    pub fn begin(&mut self, width: Width) -> Result<()> {
        if width.proposals() > self.slack {
            return Err(StateError::Slack { rows: width.rows(), slack: self.slack }.into());
        }
        self.make_room(width.rows())?;
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
        self.make_room(keys.dim(2) as usize)?;
        let start = self.rows.len();
        self.rows.append(keys.dim(2) as usize)?;
        match self.store.get_or_insert_with(|| Store::Mlx(MlxKv::default())) {
            Store::Mlx(store) => store.write(start, keys, values),
            Store::Cpu(_) => Err(Error::Executors),
        }
    }

    /// The keys and values held, `[1, kv_heads, rows held, head_dim]` each.
    pub(crate) fn rows_mlx(&self) -> Result<(Array, Array)> {
        match &self.store {
            Some(Store::Mlx(store)) => store.read(self.positions()),
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
        self.make_room(keys.rows())?;
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

    /// Refuses queries from `start` on that look further back than the rows held.
    pub(crate) fn check_reach(&self, start: Position, mask: Mask) -> Result<(), StateError> {
        let needed = mask.reach().map_or(0, |reach| start.0.saturating_sub(reach));
        if self.first <= needed { Ok(()) } else { Err(StateError::Forgotten { needed, first: self.first }) }
    }

    /// The keys that later rows may see, then the values, each by head, row and element, raised to f32. For checks.
    pub fn contents(&self) -> Result<Vec<f32>> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let visible = self.first.max(self.len().saturating_sub(self.keep))..self.len();
        match &self.store {
            Some(Store::Mlx(store)) => {
                let (keys, values) = store.read(visible)?;
                let (mut contents, values) =
                    (crate::nn::mlx::to_host(&keys)?, crate::nn::mlx::to_host(&values)?);
                contents.extend(values);
                Ok(contents)
            }
            Some(Store::Cpu(buffer)) => {
                let positions = |head| visible.clone().map(move |position| (position, head));
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

    /// Bytes of the buffers.
    #[cfg(test)]
    pub(crate) fn buffer_bytes(&self) -> Option<usize> {
        match &self.store {
            Some(Store::Mlx(store)) => store.bytes(),
            Some(Store::Cpu(buffer)) => Some(buffer.bytes()),
            None => None,
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
