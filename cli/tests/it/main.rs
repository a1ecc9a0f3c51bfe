//! The program as people start it: what it writes, and how it ends.

#![expect(clippy::unwrap_used, reason = "a test says so by failing")]

mod answers;
mod checkpoints;
mod conversation;
mod doctor;
mod help;
mod inspect;
mod paths;
mod program;
mod prove;
mod refusals;
mod serve;
mod streams;
