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
    #[error(
        "target_layer_ids: the drafter names no layer of the target, and at least one is needed\nhint: use a drafter that was trained for this target"
    )]
    NoTaps,
    /// A layer twice: the drafter's first projection was trained on as many different ones.
    #[error(
        "target_layer_ids: the drafter names layer {tap} twice, and each layer of the target is read once\nhint: use a drafter that was trained for this target"
    )]
    TapTwice {
        /// The tap.
        tap: usize,
    },
    /// A tap past the last layer.
    #[error(
        "target_layer_ids: the drafter reads layer {tap}, and the target's layers are 0 to {last}\nhint: use a drafter that was trained for this target"
    )]
    TapRange {
        /// The tap.
        tap: usize,
        /// The target's last layer.
        last: usize,
    },
    /// A mask token that the target does not have.
    #[error(
        "mask_token_id: the drafter's is {mask}, and the target's vocabulary has {vocab} ids\nhint: use a drafter that was trained for this target"
    )]
    MaskToken {
        /// The id.
        mask: usize,
        /// Ids of the target.
        vocab: usize,
    },
    /// A drafter that proposes nothing.
    #[error(
        "block_size: the drafter's trained width is {width} rows, and at least 2 are needed for a proposal\nhint: use a drafter that was trained for this target"
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
    if drafter.taps.is_empty() {
        return Err(PairingError::NoTaps);
    }
    for (nth, &tap) in drafter.taps.iter().enumerate() {
        if tap >= target.layers {
            return Err(PairingError::TapRange { tap, last: target.layers.saturating_sub(1) });
        }
        if drafter.taps[..nth].contains(&tap) {
            return Err(PairingError::TapTwice { tap });
        }
    }
    if drafter.mask_token.index() >= target.vocab {
        return Err(PairingError::MaskToken { mask: drafter.mask_token.index(), vocab: target.vocab });
    }
    if drafter.trained_width.rows() < 2 {
        return Err(PairingError::Width { width: drafter.trained_width.rows() });
    }
    Ok(())
}
