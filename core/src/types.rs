//! Newtypes where off-by-one lives.

use std::fmt;

/// An id of the target's vocabulary. Checked against the vocabulary before it reaches MLX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
#[repr(transparent)]
pub struct TokenId(pub u32);

impl TokenId {
    /// The id as an index into a row of logits.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Absolute position of a token in its sequence; the first prompt token has position 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub usize);

impl Position {
    /// The position `rows` further on.
    #[must_use]
    pub const fn plus(self, rows: usize) -> Self {
        Self(self.0 + rows)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Rows of a verify block, the anchor included. Width 1 is classic decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "usize", into = "usize")]
pub struct Width(usize);

impl From<Width> for usize {
    fn from(width: Width) -> Self {
        width.0
    }
}

impl TryFrom<usize> for Width {
    type Error = &'static str;

    fn try_from(rows: usize) -> Result<Self, Self::Error> {
        Self::new(rows).ok_or("a width of 0 rows")
    }
}

impl Width {
    /// Classic decoding: the anchor alone.
    pub const ONE: Self = Self(1);

    /// Where drafters start unless they say otherwise.
    pub const EIGHT: Self = Self(8);

    /// A width of `rows`, or `None` for 0.
    pub const fn new(rows: usize) -> Option<Self> {
        if rows == 0 { None } else { Some(Self(rows)) }
    }

    /// Rows of the block, at least 1.
    pub const fn rows(self) -> usize {
        self.0
    }

    /// Tokens that the drafter proposes for a block of this width.
    pub const fn proposals(self) -> usize {
        self.0 - 1
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Rows of an open block that stay when it is committed; the rest is taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kept(pub usize);
