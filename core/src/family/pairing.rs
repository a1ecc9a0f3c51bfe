//! Whether a drafter fits a target, asked once, at load.

use super::{DrafterSpec, TargetSpec};

/// A drafter does not fit its target. Each names both sides and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairingError {
    /// The target's family needs another drafter family.
    #[error(
        "the target's family {target_family} needs a {required} drafter, and this one is {found}\nhint: use a {required} drafter that was trained for this target"
    )]
    Family {
        /// Family of the target.
        target_family: &'static str,
        /// Family of drafter it needs.
        required: &'static str,
        /// Family of this drafter.
        found: &'static str,
    },
    /// Residual streams of different widths.
    #[error(
        "hidden_size: the drafter has {drafter}, the target {target}\nhint: use a drafter that was trained for this target"
    )]
    Hidden {
        /// Width of the drafter.
        drafter: usize,
        /// Width of the target.
        target: usize,
    },
    /// A drafter for a target with another number of layers.
    #[error(
        "num_target_layers: the drafter was trained on a target of {drafter} layers, this one has {target}\nhint: use a drafter that was trained for this target"
    )]
    Layers {
        /// Layers the drafter expects.
        drafter: usize,
        /// Layers of the target.
        target: usize,
    },
    /// Another vocabulary.
    #[error(
        "vocab_size: the drafter has {drafter}, the target {target}\nhint: use a drafter that was trained for this target"
    )]
    Vocab {
        /// Vocabulary of the drafter.
        drafter: usize,
        /// Vocabulary of the target.
        target: usize,
    },
    /// No taps at all.
    #[error("target_layer_ids: the drafter names no layer of the target")]
    NoTaps,
    /// Taps out of order.
    #[error("target_layer_ids: {second} follows {first}, and the ids must increase strictly")]
    TapOrder {
        /// A tap.
        first: usize,
        /// The tap listed after it.
        second: usize,
    },
    /// A tap at the last layer, whose state is only known normed, or past it.
    #[error(
        "target_layer_ids: the drafter reads layer {tap}, and the target's last readable layer is {last}"
    )]
    TapRange {
        /// The tap.
        tap: usize,
        /// The last layer that can be read.
        last: usize,
    },
    /// A mask token that the target does not have.
    #[error("mask_token_id: the drafter's is {mask}, and the target's vocabulary has {vocab} ids")]
    MaskToken {
        /// The id.
        mask: usize,
        /// Ids of the target.
        vocab: usize,
    },
    /// A drafter that proposes nothing.
    #[error(
        "block_size: the drafter's trained width is {width} rows, and at least 2 are needed for a proposal"
    )]
    Width {
        /// The width.
        width: usize,
    },
}

/// Checks a drafter against a target. `target_layers` and `vocab` are what the drafter's config says of its target,
/// where it says anything.
pub fn check_pairing(
    drafter: &DrafterSpec,
    target: &TargetSpec,
    target_layers: Option<usize>,
    vocab: Option<usize>,
) -> Result<(), PairingError> {
    if let Some(required) = target.required_drafter_family
        && required != drafter.family
    {
        let target_family = target.family;
        return Err(PairingError::Family { target_family, required, found: drafter.family });
    }
    if drafter.hidden != target.hidden {
        return Err(PairingError::Hidden { drafter: drafter.hidden, target: target.hidden });
    }
    if let Some(layers) = target_layers
        && layers != target.layers
    {
        return Err(PairingError::Layers { drafter: layers, target: target.layers });
    }
    if let Some(vocab) = vocab
        && vocab != target.vocab
    {
        return Err(PairingError::Vocab { drafter: vocab, target: target.vocab });
    }
    let Some(last_tap) = drafter.taps.last() else { return Err(PairingError::NoTaps) };
    if let Some(pair) = drafter.taps.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(PairingError::TapOrder { first: pair[0], second: pair[1] });
    }
    if *last_tap + 1 >= target.layers {
        return Err(PairingError::TapRange { tap: *last_tap, last: target.layers.saturating_sub(2) });
    }
    if drafter.mask_token.index() >= target.vocab {
        return Err(PairingError::MaskToken { mask: drafter.mask_token.index(), vocab: target.vocab });
    }
    if drafter.trained_width.rows() < 2 {
        return Err(PairingError::Width { width: drafter.trained_width.rows() });
    }
    Ok(())
}
