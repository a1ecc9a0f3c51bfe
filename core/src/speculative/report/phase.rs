//! Where the time of a request goes.

use std::{
    ops::{Index, IndexMut},
    time::Duration,
};

use serde::{Serialize, Serializer, ser::SerializeStruct as _};

/// What a part of a round does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The drafter takes in committed rows.
    Observe,
    /// The drafter proposes.
    Draft,
    /// The target's forward over the block, up to its logits.
    Verify,
    /// The block's rows are decided.
    Decide,
    /// The state keeps the rows of emitted tokens.
    Commit,
}

/// Time by phase. Whoever drives a sequence adds what it measures of the first three; the sequence measures the rest.
///
/// Serialised: seconds by snake_case names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases([Duration; 5]);

impl Index<Phase> for Phases {
    type Output = Duration;

    fn index(&self, phase: Phase) -> &Duration {
        &self.0[phase as usize]
    }
}

impl IndexMut<Phase> for Phases {
    fn index_mut(&mut self, phase: Phase) -> &mut Duration {
        &mut self.0[phase as usize]
    }
}

impl Serialize for Phases {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Phases", 5)?;
        object.serialize_field("observe", &self[Phase::Observe].as_secs_f64())?;
        object.serialize_field("draft", &self[Phase::Draft].as_secs_f64())?;
        object.serialize_field("verify", &self[Phase::Verify].as_secs_f64())?;
        object.serialize_field("decide", &self[Phase::Decide].as_secs_f64())?;
        object.serialize_field("commit", &self[Phase::Commit].as_secs_f64())?;
        object.end()
    }
}
