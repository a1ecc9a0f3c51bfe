//! The rows of an open block.

use super::StateError;
use crate::{Kept, Width};

/// Counts what a layer holds: committed rows, and those of an open block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    len: usize,
    /// Length before the block, and the rows it was opened for.
    open: Option<(usize, usize)>,
}

impl Rows {
    /// Rows held, those of an open block included.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn begin(&mut self, width: Width) -> Result<(), StateError> {
        if self.open.is_some() {
            return Err(StateError::AlreadyOpen { rows: width.rows() });
        }
        self.open = Some((self.len, width.rows()));
        Ok(())
    }

    /// Counts appended rows; an open block takes no more than it was opened for.
    pub(super) fn append(&mut self, rows: usize) -> Result<(), StateError> {
        if let Some((start, width)) = self.open {
            let received = self.len + rows - start;
            if received > width {
                return Err(StateError::BlockOverflow { rows: width, received });
            }
        }
        self.len += rows;
        Ok(())
    }

    /// Closes the block and gives the rows it received. On an error the block stays open.
    pub(super) fn commit(&mut self, kept: Kept) -> Result<usize, StateError> {
        let (start, _) = self.open.ok_or(StateError::NotOpen)?;
        let received = self.len - start;
        if kept.0 > received {
            return Err(StateError::KeptTooMany { kept: kept.0, received });
        }
        self.len = start + kept.0;
        self.open = None;
        Ok(received)
    }
}
