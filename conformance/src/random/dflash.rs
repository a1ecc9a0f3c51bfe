//! Random DFlash drafters (spec 4).

use serde_json::{Value, json};

use super::{
    Packed, RandomModel,
    backbone::{self, Backbone, misfit},
};
use crate::pairing::Misfit;

/// Rows of the verify block, the anchor included.
const BLOCK: usize = 8;

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
    /// Which layers slide, over this many rows.
    pub sliding: Option<(&'static [bool], usize)>,
    /// Whether the config says that blocks are causal.
    pub causal: Option<bool>,
    /// Factors on embedding rows and logits, and a bound on the latter.
    pub scaled: bool,
}

impl Shape {
    /// Random weights of this shape.
    pub fn model(&self, seed: u64) -> RandomModel {
        let mut config = self.config();
        config.as_object_mut().into_iter().for_each(|config| config.extend(self.backbone().config()));
        let weights = self.backbone().weights(seed, "", ["fc", "hidden_norm"]);
        RandomModel { config, tensors: weights.finish() }
    }

    fn backbone(&self) -> Backbone {
        let layers = self.sliding.map_or(2, |(sliding, _)| sliding.len());
        Backbone { hidden: self.hidden, layers, taps: self.taps.len(), packed: Packed::No }
    }

    fn config(&self) -> Value {
        let mut config = json!({
            "model_type": "qwen3",
            "architectures": ["DFlashDraftModel"],
            "vocab_size": self.vocab,
            "rms_norm_eps": 1e-6,
            "rope_parameters": { "rope_theta": 10000.0, "rope_type": "default" },
            "block_size": BLOCK,
            "num_target_layers": self.target_layers,
            "dflash_config": { "mask_token_id": self.vocab - 1, "target_layer_ids": self.taps },
        });
        if let Some((sliding, window)) = self.sliding {
            let kind = |sliding: &bool| if *sliding { "sliding_attention" } else { "full_attention" };
            config["layer_types"] = sliding.iter().map(kind).collect();
            config["sliding_window"] = window.into();
        }
        if let Some(causal) = self.causal {
            config["is_causal"] = causal.into();
        }
        if self.scaled {
            config["dflash_config"]["input_embedding_scale"] = 1.5.into();
            config["dflash_config"]["output_multiplier"] = 0.75.into();
            config["dflash_config"]["final_logit_softcapping"] = 3.0.into();
        }
        config
    }
}

/// The config of a drafter, wrong in every way that pairing tells apart.
pub fn misfits(config: &Value) -> Vec<Misfit> {
    let mut misfits = backbone::misfits(config, Some("dflash_config"));
    misfits.extend([
        // With a Markov head it is a DSpark drafter.
        misfit(config, "Family", |config| config["markov_rank"] = json!(8)),
        misfit(config, "Layers", |config| config["num_target_layers"] = json!(17)),
        misfit(config, "Width", |config| config["block_size"] = json!(1)),
    ]);
    misfits
}
