//! The server as clients see it, over sockets, with the trained pair of the program.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

mod access;
mod answers;
mod bodies;
mod client;
mod company;
mod connections;
mod exactness;
mod fields;
mod lifecycle;
mod page;
mod python;
mod started;
mod streams;
mod waiting;
