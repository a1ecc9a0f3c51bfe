//! Core of mlxcel: everything that serves a language model speculatively and names no family.

mod cache;
pub mod checkpoint;
pub mod engine;
mod error;
pub mod exactness;
pub mod family;
pub mod nn;
pub mod sampling;
pub mod speculative;
pub mod state;
pub mod text;
mod types;

pub use error::{Error, Result};
/// Whether standard output was closed when the process started; Rust hides it behind `/dev/null`.
pub use mlx_sys::stdout_was_closed;
pub use types::{Kept, Position, TokenId, Width};
