//! Core of mlxcel: everything that serves a language model speculatively and names no family.

pub mod checkpoint;
mod error;
pub mod family;
pub mod nn;
pub mod sampling;
pub mod speculative;
pub mod state;
pub mod text;
mod types;

pub use error::{Error, Result};
pub use types::{Kept, Position, TokenId, Width};
