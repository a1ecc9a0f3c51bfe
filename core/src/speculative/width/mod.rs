//! Which width a round has: as wide as pays, 1 where nothing does.
//!
//! ```text
//! rate(width) = expected tokens(width) / seconds(width)
//! ```
//!
//! | file | idea |
//! | --- | --- |
//! | `survival` | expected tokens: how far proposals survive, one estimate by position for all widths |
//! | `curve` | seconds: the target by rows and the drafter by proposals, through the machine's present speed |
//! | `account` | what trying out may cost |
//! | `confidence` | what a drafter's confidence is worth |
//! | `cut` | a block loses the rows that its drafter is not sure enough of |
//! | `policy` | the choice: the best rate, and trials where two rates lie within the error |
//! | `evidence` | what the requests of a pair share |
//! | `store` | what outlives the program |
//! | `together` | the widths of several sequences that share a forward |
//! | `simulation` | the policy against made-up machines: the bounds that it must keep |
//!
//! No clock is read in here: times are handed in, so the same times give the same widths.

mod account;
mod confidence;
mod curve;
mod cut;
mod evidence;
mod policy;
mod set;
pub mod simulation;
mod store;
mod survival;
mod together;

pub use cut::ConfidenceUse;
pub use evidence::{Evidence, SharedEvidence};
pub use policy::{Outcome, Situation, WidthPolicy};
pub use set::WidthSet;
pub use store::{EvidenceStore, PairKey};
pub use together::choose_together;
