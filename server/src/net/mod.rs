//! Connections: how they are accepted, bounded, watched and ended.

mod connection;
mod listen;
mod peer;

pub(crate) use connection::{Connections, serve};
pub use listen::BindError;
pub(crate) use listen::bind;
pub(crate) use peer::Peer;
