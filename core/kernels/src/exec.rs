//! Where a kernel runs: instruction set and threads.

use std::sync::Arc;

use crate::{Isa, Pool, isa, pool};

/// Instruction set and thread pool of a kernel call. Neither changes a bit of any result.
#[derive(Clone, Debug)]
pub struct Exec {
    /// The instruction set; one the machine lacks runs as [`Isa::Portable`].
    pub isa: Isa,
    /// The threads.
    pub pool: Arc<Pool>,
}

impl Exec {
    /// The process-wide choice: [`isa()`] and [`pool()`].
    pub fn current() -> Exec {
        Exec { isa: isa(), pool: pool() }
    }

    /// One instruction set on a new pool of `threads` threads (for tests and benches).
    pub fn new(isa: Isa, threads: usize) -> Exec {
        Exec { isa, pool: Arc::new(Pool::new(threads)) }
    }
}
