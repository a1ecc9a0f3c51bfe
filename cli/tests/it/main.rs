//! The program as people start it: what it writes, and how it ends.

mod answers;
mod checkpoints;
mod help;
mod inspect;
mod program;
mod refusals;
mod streams;
