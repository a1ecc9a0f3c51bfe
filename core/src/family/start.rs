//! What a command line asks of speculation, refused at start and never per request.

use std::{fmt, str::FromStr};

use super::{DrafterSpec, PairingError, drafter_family, target_family};
use crate::{Result, Width, checkpoint::Checkpoint};

/// The loop that a drafter runs in, by the name that clients know. It is no family: drafters of all families propose a
/// block at once, and the target checks it in one forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftKind {
    /// A block of rows, drafted at once.
    Block,
}

impl DraftKind {
    /// The name, as flags and reports have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "dflash",
        }
    }
}

impl fmt::Display for DraftKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

impl FromStr for DraftKind {
    type Err = StartError;

    /// The kind of this name, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, StartError> {
        if text.eq_ignore_ascii_case(Self::Block.name()) {
            return Ok(Self::Block);
        }
        Err(StartError::UnknownKind { found: text.to_owned() })
    }
}

/// A command line that asks for speculation which cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A kind of drafting that is not built.
    #[error("{found:?} is no kind of drafting here, expected {}", DraftKind::Block)]
    UnknownKind {
        /// What was asked for.
        found: String,
    },
    /// A flag about drafting, and nothing that drafts.
    #[error("{flag} needs a drafter\nhint: name one with --draft-model")]
    NeedsDrafter {
        /// The flag.
        flag: &'static str,
    },
    /// A block wider than the drafter was trained for.
    #[error("{flag} {found} is over the limit of this drafter\nhint: use a width of 1 to {limit}")]
    Width {
        /// The flag.
        flag: &'static str,
        /// Rows asked for.
        found: usize,
        /// The trained width.
        limit: usize,
    },
}

/// What the flags of a program say of drafting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftFlags {
    /// `--draft-kind`
    pub kind: Option<DraftKind>,
    /// `--draft-block-size`
    pub block_size: Option<Width>,
}

impl DraftFlags {
    /// Before anything is loaded: no flag may ask something of a drafter that is not there.
    pub fn check_drafter(&self, named: bool) -> Result<(), StartError> {
        let flags =
            [("--draft-kind", self.kind.is_some()), ("--draft-block-size", self.block_size.is_some())];
        match flags.into_iter().find(|(_, given)| *given && !named) {
            Some((flag, _)) => Err(StartError::NeedsDrafter { flag }),
            None => Ok(()),
        }
    }

    /// Before weights are read: the width that the drafter was trained for, by its config, is the bound of every block.
    ///
    /// # Errors
    /// A wider block is asked for, or the checkpoint is no drafter.
    pub fn check_config(&self, drafter: &Checkpoint) -> Result<(), crate::Error> {
        let Some(width) = self.block_size else { return Ok(()) };
        let trained = (drafter_family(drafter)?.trained_width)(drafter.config())?;
        Ok(within(BLOCK_SIZE, width, trained)?)
    }

    /// Once the drafter is bound: what was said of its config holds.
    pub fn check_width(&self, drafter: &DrafterSpec) -> Result<(), StartError> {
        self.block_size.map_or(Ok(()), |width| check_width(BLOCK_SIZE, width, drafter))
    }
}

const BLOCK_SIZE: &str = "--draft-block-size";

/// Whether the width that `flag` asks for is within the drafter's bound.
pub fn check_width(flag: &'static str, width: Width, drafter: &DrafterSpec) -> Result<(), StartError> {
    within(flag, width, drafter.trained_width)
}

fn within(flag: &'static str, width: Width, trained: Width) -> Result<(), StartError> {
    let (found, limit) = (width.rows(), trained.rows());
    if found > limit { Err(StartError::Width { flag, found, limit }) } else { Ok(()) }
}

/// Whether two checkpoints are a target and a drafter of the family that it needs: from their configs alone, so that
/// nobody waits for weights to be told otherwise.
pub fn check_families(target: &Checkpoint, drafter: &Checkpoint) -> Result<()> {
    let target = target_family(target)?;
    let drafter = drafter_family(drafter)?;
    match target.required_drafter_family {
        Some(required) if required != drafter.name => {
            Err(PairingError::Family { target_family: target.name, required, found: drafter.name }.into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TokenId;

    #[test]
    fn the_kind_is_read_in_upper_and_lower_case() {
        for text in ["dflash", "DFlash", "DFLASH"] {
            assert_eq!(text.parse(), Ok(DraftKind::Block), "{text}");
        }
        for text in ["", "mtp", "eagle3", "dspark", "dflash2", " dflash"] {
            let error = text.parse::<DraftKind>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
        assert_eq!(
            StartError::UnknownKind { found: "mtp".to_owned() }.to_string(),
            "\"mtp\" is no kind of drafting here, expected dflash"
        );
    }

    #[test]
    fn flags_about_drafting_need_a_drafter() {
        let kind = DraftFlags { kind: Some(DraftKind::Block), ..DraftFlags::default() };
        let width = DraftFlags { block_size: Width::new(4), ..DraftFlags::default() };
        for (flags, flag) in [(kind, "--draft-kind"), (width, "--draft-block-size")] {
            assert_eq!(flags.check_drafter(false), Err(StartError::NeedsDrafter { flag }));
            assert_eq!(flags.check_drafter(true), Ok(()));
        }
        assert_eq!(DraftFlags::default().check_drafter(false), Ok(()));
    }

    #[test]
    fn a_width_over_the_bound_is_named_with_its_limit() {
        let width = |rows| Width::new(rows).unwrap_or(Width::ONE);
        let drafter = DrafterSpec {
            family: "none",
            taps: vec![0],
            hidden: 8,
            mask_token: TokenId(0),
            trained_width: width(16),
            reach: None,
            default_width: width(8),
        };
        for rows in [1, 2, 16] {
            DraftFlags { block_size: Some(width(rows)), kind: None }.check_width(&drafter).unwrap();
        }
        for rows in [17, 128, 129, 256, 1 << 40] {
            let flags = DraftFlags { block_size: Some(width(rows)), kind: None };
            let error = flags.check_width(&drafter).unwrap_err();
            assert_eq!(error, StartError::Width { flag: "--draft-block-size", found: rows, limit: 16 });
        }
        DraftFlags::default().check_width(&drafter).unwrap();
    }
}
