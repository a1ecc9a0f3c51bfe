//! Defects, planted on purpose: each makes a check fail, and a test shows that it does. A check that cannot fail shows
//! nothing.

mod decide;
mod drafter;
mod target;

pub use decide::PlantedDecide;
pub use drafter::{DrafterDefect, PlantedDrafter};
pub use target::{PlantedTarget, TargetDefect};
