//! The checks that every family inherits.
//!
//! A check is a function that gives a [`Check`]; it never panics, so that [`plants`] can assert that it fails where it
//! must.

pub mod abandon;
pub mod acceptance;
pub mod batch;
pub mod bounds;
pub mod breaches;
pub mod clipping;
mod compare;
pub mod cuts;
pub mod drafting;
pub mod drive;
pub mod exactness;
mod failure;
pub mod fuzz;
pub mod golden;
mod guided;
mod inherit;
pub mod load;
pub mod mixed;
pub mod pair;
pub mod pairing;
pub mod plants;
pub mod random;
pub mod repository;
pub mod rollback;
pub mod rounds;
mod scope;
pub mod scripted;
mod short;
pub mod sizes;
pub mod spelling;
pub mod suite;
pub mod suppressed;
pub mod text;
pub mod trained;

pub use compare::{argmax, close, max_abs, mean_abs, same_bits};
pub use failure::{At, Check, Failure, say};
pub use guided::Guided;
pub use scope::{Scope, VARIABLE};
pub use short::Short;
