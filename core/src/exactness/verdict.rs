//! What the gate found out about a width.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Width;

/// What is known of blocks of one width.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The width.
    pub width: Width,
    /// Whether the executor's kernels are row-exact, so that nothing needs to be measured.
    pub by_construction: bool,
    /// Rows of the longest context that blocks of this width were probed behind; `None` if they were not probed.
    pub longest: Option<usize>,
    /// The first difference from the chain that was found.
    pub difference: Option<Difference>,
}

impl Verdict {
    /// Whether a block behind `context` rows gives what its tokens give one by one.
    ///
    /// # Errors
    /// Why not, or why that is not known.
    pub fn check(&self, context: usize) -> Result<(), Refusal> {
        match (self.difference, self.longest) {
            (Some(difference), _) => Err(Refusal::Differs(difference)),
            (None, _) if self.by_construction => Ok(()),
            (None, Some(longest)) if context <= longest => Ok(()),
            (None, Some(longest)) => Err(Refusal::Beyond { width: self.width, longest }),
            (None, None) => Err(Refusal::NotProbed { width: self.width }),
        }
    }

    /// What the verdict rests on: `by construction`, `probed`, or both.
    pub fn basis(&self) -> &'static str {
        match (self.by_construction, self.longest.is_some()) {
            (true, true) => "by construction, and probed",
            (true, false) => "by construction",
            (false, true) => "probed",
            (false, false) => "not probed",
        }
    }
}

impl fmt::Display for Verdict {
    /// In the words of all reports: `exact, by construction`, `exact, probed up to 600 rows`, or what differs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.difference, self.longest) {
            (Some(Difference { what, place, .. }), _) => write!(f, "{what} ({place})"),
            (None, Some(rows)) => write!(f, "exact, {} up to {rows} rows", self.basis()),
            (None, None) if self.by_construction => write!(f, "exact, {}", self.basis()),
            (None, None) => Refusal::NotProbed { width: self.width }.fmt(f),
        }
    }
}

/// Where blocks are compared with chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Behind a prompt of one token.
    Fresh,
    /// Behind a block of which a part was taken back.
    PartialCommit,
    /// Across the edge of a sliding window.
    WindowEdge,
    /// Behind a long prompt.
    LongPrefix,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "in a fresh state",
            Self::PartialCommit => "after a partial commit",
            Self::WindowEdge => "across a window edge",
            Self::LongPrefix => "behind a long prefix",
        })
    }
}

/// A block that is not its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Rows of the block.
    pub width: Width,
    /// Where it was seen.
    pub place: Place,
    /// Rows of context before the block.
    pub context: usize,
    /// What differs.
    pub what: What,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "width {} differs in {}", self.width, self.what)
    }
}

/// What of a block differs from its chain, and of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Bytes of its logits.
    LogitBytes {
        /// Those that differ.
        differing: usize,
        /// All of the block's.
        of: usize,
    },
    /// Decisions made from equal logits: ids or log-probabilities.
    Decisions {
        /// Those that differ.
        differing: usize,
        /// All of the block's, greedy and sampled.
        of: usize,
    },
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LogitBytes { differing, of } => write!(f, "{differing} of {of} logit bytes"),
            Self::Decisions { differing, of } => write!(f, "{differing} of {of} decisions"),
        }
    }
}

/// Why a width may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It was seen to differ.
    Differs(Difference),
    /// Nothing is known of it.
    NotProbed {
        /// The width.
        width: Width,
    },
    /// The context has grown past what was probed.
    Beyond {
        /// The width.
        width: Width,
        /// Rows of the longest context probed.
        longest: usize,
    },
}

impl Refusal {
    /// The reason as programs read it.
    pub fn code(self) -> &'static str {
        match self {
            Self::Differs(_) => "differs",
            Self::NotProbed { .. } => "not_probed",
            Self::Beyond { .. } => "beyond",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs(difference) => difference.fmt(f),
            Self::NotProbed { width } => write!(f, "width {width} was not probed"),
            Self::Beyond { width, longest } => {
                write!(f, "width {width} was probed up to {longest} rows of context only")
            }
        }
    }
}
