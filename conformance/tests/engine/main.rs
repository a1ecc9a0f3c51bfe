//! The engine, on a target and a drafter without weights: company, failures and slow readers change nothing for anybody
//! else.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

mod bounds;
mod company;
mod faults;
mod faulty;
mod setting;
mod turns;
mod verdicts;
