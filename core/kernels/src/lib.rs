//! Row-exact CPU kernels of mlxcel, over plain buffers.
//!
//! **Contract of every kernel**: the bits of a row of the result depend on that row's inputs and on the
//! weights only. Not on the number of rows, the tile that computed them, the number of threads, or the
//! instruction set. Sums run in one fixed order with fused multiply-adds ([`simd`]), or in integers, where
//! the order cannot matter ([`linear`]). Non-finite input never panics; each kernel says what it gives.
//!
//! Each kernel has a form that takes an [`Exec`] (instruction set and thread pool), so that paths can be
//! compared within one process; [`Exec::current`] is the process-wide choice.

pub mod activation;
pub mod attention;
pub mod conv;
pub mod delta;
mod exec;
mod heads;
mod isa;
pub mod linear;
pub mod math;
pub mod norm;
mod parts;
pub mod pool;
pub mod rope;
mod rows;
pub mod simd;

#[cfg(test)]
mod testing;

/// Hash of the sources of this crate, in hex: what is measured with its kernels is void when it changes.
pub const SOURCES: &str = env!("KERNEL_SOURCES");

pub use exec::Exec;
pub use heads::Heads;
pub use isa::{Isa, IsaError, force_isa, isa};
pub use pool::{Pool, pool, set_threads};
