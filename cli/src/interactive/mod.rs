//! The conversation on a terminal.

mod command;
mod editor;
mod input;
mod session;
mod settings;

pub(crate) use session::converse;
