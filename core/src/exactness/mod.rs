//! The exactness gate: a width runs only where a block gives, byte for byte, what its tokens give one by one.
//!
//! Kernels that are row-exact give that by construction. Everywhere else it is measured, for every width that may run, in
//! scenes: a fresh state, after a partial commit, across a window's edge, behind a long prefix. One chain of single
//! rows a scene serves all widths. Compared are the logits, byte for byte, and the decisions made from them (ids and
//! log-probabilities, greedy and sampled). The outcome is a [`Verdict`] a width, which holds for contexts as long as the
//! longest that was probed; verdicts are kept in the user's cache by a [`Key`] of everything that they depend on.
//!
//! A width without a verdict of its own never runs: one width says nothing about another.
//!
//! | file | idea |
//! | --- | --- |
//! | [`gate`] | which widths may run, asked before every block |
//! | `scene` | where blocks are compared with chains |
//! | `probe` | the comparison |
//! | [`decide`] | rows of logits to decisions, as the round makes them |
//! | [`verdict`], [`view`] | what came out, and how clients read it |
//! | [`key`], [`store`], [`device`] | for how long it holds, and where it is kept |

pub mod decide;
pub mod device;
pub mod gate;
pub mod key;
mod probe;
mod scene;
pub mod store;
pub mod verdict;
pub mod view;

pub use decide::{DecideRows, HostDecide};
pub use device::Device;
pub use gate::{Cost, Gate, Probe, Setup};
pub use key::Key;
pub use store::Store;
pub use verdict::{Difference, Place, Refusal, Verdict, What};
pub use view::{Verdicts, WidthVerdict};

#[cfg(test)]
mod tests;
