//! Core of mlxcel: everything that serves a language model speculatively and names no family.

pub mod checkpoint;
pub mod sampling;
pub mod text;
mod types;

pub use types::{Kept, Position, TokenId, Width};
