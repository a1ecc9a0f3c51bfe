//! Random DSpark drafters (spec 5).

use serde_json::{Value, json};

use super::{
    Packed, RandomModel,
    backbone::{self, Backbone, misfit},
};
use crate::pairing::Misfit;

const LAYERS: usize = 2;
/// Proposals; the verify block has the anchor in front.
const BLOCK: usize = 7;

/// What a drafter takes over from its target, and what varies.
pub struct Shape {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Ids of the vocabulary.
    pub vocab: usize,
    /// Layers of the target.
    pub target_layers: usize,
    /// Layers that are read.
    pub taps: [usize; 2],
    /// Rotated pairs are half a head apart, not neighbours.
    pub neox: bool,
    /// Has a confidence head.
    pub confidence: bool,
    /// How its matrices are stored.
    pub packed: Packed,
}

impl Shape {
    /// Random weights of this shape.
    pub fn model(&self, seed: u64) -> RandomModel {
        let backbone =
            Backbone { hidden: self.hidden, layers: LAYERS, taps: self.taps.len(), packed: self.packed };
        let mut config = self.config();
        config.as_object_mut().into_iter().for_each(|config| config.extend(backbone.config()));
        let mut weights = backbone.weights(seed, "", ["fc", "hidden_norm"]);
        let rank = self.rank();
        weights.table("markov_head.markov_w1", self.vocab, rank, 1.0);
        weights.matrix("markov_head.markov_w2", self.vocab, rank, 0.5);
        if self.confidence {
            weights.table("confidence_head.proj", 1, self.hidden + rank, 0.1);
            weights.bias("confidence_head.proj", 1);
        }
        RandomModel { config, tensors: weights.finish() }
    }

    /// A whole number of groups where there are any, so that no matrix of the heads stays dense.
    fn rank(&self) -> usize {
        match self.packed {
            Packed::No | Packed::Half => 8,
            Packed::Affine { group, .. } => group,
            Packed::Micro(_) => 32,
        }
    }

    fn config(&self) -> Value {
        let mut config = json!({
            "model_type": "qwen3",
            "architectures": ["DSparkDraftModel"],
            "vocab_size": self.vocab,
            "layer_types": vec!["full_attention"; LAYERS],
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "rope_is_neox_style": self.neox,
            "block_size": BLOCK,
            "markov_rank": self.rank(),
            "markov_head_type": "vanilla",
            "enable_confidence_head": self.confidence,
            "dflash_config": {
                "mask_token_id": self.vocab - 1,
                "target_layer_ids": self.taps,
                "num_target_layers": self.target_layers,
            },
        });
        if let Some(block) = self.packed.block() {
            config["quantization"] = block;
        }
        config
    }
}

/// The config of a drafter, wrong in every way that pairing tells apart.
pub fn misfits(config: &Value) -> Vec<Misfit> {
    let mut misfits = backbone::misfits(config, Some("dflash_config"));
    misfits.extend([
        // Without a Markov head it is a DFlash drafter.
        misfit(config, "Family", |config| {
            config.as_object_mut().map(|fields| fields.remove("markov_rank"));
        }),
        misfit(config, "Layers", |config| config["dflash_config"]["num_target_layers"] = json!(17)),
        misfit(config, "Width", |config| {
            config["block_size"] = json!(1);
            config["dspark_bonus_anchor"] = json!(true);
        }),
    ]);
    misfits
}
