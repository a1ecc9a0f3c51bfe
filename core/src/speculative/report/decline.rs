//! Why there was no speculation.

use std::fmt;

use crate::exactness::Refusal;

/// Why a request is served without speculation. Serialised, it is its [code](Self::code).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decline {
    /// There is no drafter.
    NoDrafter,
    /// The request asked for it.
    Requested,
    /// The width is 1.
    WidthOne,
    /// By what is known, no block wider than 1 pays.
    NotWorthwhile,
    /// The drafter failed on the way; the log says how.
    DrafterFailed,
    /// The width is not known to give the tokens of classic decoding.
    Exactness(Refusal),
}

impl Decline {
    /// The reason as programs read it.
    pub fn code(self) -> &'static str {
        match self {
            Self::NoDrafter => "no_drafter",
            Self::Requested => "requested",
            Self::WidthOne => "width_one",
            Self::NotWorthwhile => "not_worthwhile",
            Self::DrafterFailed => "drafter_failed",
            Self::Exactness(_) => "exactness",
        }
    }
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoDrafter => "no drafter is loaded",
            Self::Requested => "speculation is switched off",
            Self::WidthOne => "the block size is 1",
            Self::NotWorthwhile => "it would not pay",
            Self::DrafterFailed => "the drafter failed",
            Self::Exactness(refusal) => return write!(f, "exactness: {refusal}"),
        })
    }
}

impl serde::Serialize for Decline {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}
