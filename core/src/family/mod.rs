//! What a family is: targets and drafters, how they register, and which pairs fit.

mod drafter;
mod pairing;
mod registry;
mod segment;
mod start;
mod suppressed;
mod target;

pub use drafter::{Bound, Confidence, Draft, Drafter, DrafterContext, DrafterSpec, Observe, Pick, Proposals};
pub use pairing::{PairingError, check_pairing};
pub use registry::{
    DrafterFamily, LoadDrafter, Recognised, RegistryError, TargetFamily, check_targets, drafter_families,
    drafter_family, load_drafter, load_target, recognise, target_families, target_family,
};
pub use segment::{LogitRows, Output, Segment, Want, forward, forward_one};
pub use start::{DraftFlags, DraftKind, StartError, check_families, check_width};
pub use suppressed::suppressed;
pub use target::{Target, TargetSpec};
