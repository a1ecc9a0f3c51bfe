//! Random Muse assistants (spec 6).

use serde_json::{Value, json};

use super::{
    Packed, RandomModel,
    backbone::{self, Backbone, misfit},
};
use crate::pairing::Misfit;

const LAYERS: usize = 2;
/// Rows of the verify block, the anchor included.
const BLOCK: usize = 8;

/// What a drafter takes over from its target, and what varies.
pub struct Shape {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Ids of the vocabulary.
    pub vocab: usize,
    /// Layers that are read.
    pub taps: [usize; 2],
    /// Rows that are seen to each side.
    pub window: usize,
    /// Whether the drafter's own fields lie in a section.
    pub nested: bool,
    /// Whether tensors have the prefix of a packaged model.
    pub prefixed: bool,
}

impl Shape {
    /// Random weights of this shape.
    pub fn model(&self, seed: u64) -> RandomModel {
        let backbone =
            Backbone { hidden: self.hidden, layers: LAYERS, taps: self.taps.len(), packed: Packed::No };
        let mut config = self.config();
        config.as_object_mut().into_iter().for_each(|config| config.extend(backbone.config()));
        let prefix = if self.prefixed { "model." } else { "" };
        let weights = backbone.weights(seed, prefix, ["encoder.fc", "encoder.output_norm_enc"]);
        RandomModel { config, tensors: weights.finish() }
    }

    fn config(&self) -> Value {
        let mut config = json!({
            "model_type": "muse_glimmer_assistant",
            "architectures": ["MuseGlimmerAssistantModel"],
            "layer_types": vec!["sliding_attention"; LAYERS],
            "sliding_window": self.window,
            "rms_norm_eps": 1e-5,
            "rope_parameters": { "rope_theta": 10000.0, "rope_type": "default" },
            "max_position_embeddings": 2048,
        });
        let own =
            json!({ "block_size": BLOCK, "mask_token_id": self.vocab - 1, "target_layer_ids": self.taps });
        if self.nested {
            config["dflash_config"] = own;
        } else {
            config.as_object_mut().into_iter().zip(own.as_object()).for_each(|(config, own)| {
                config.extend(own.clone());
            });
        }
        config
    }
}

/// The config of a flat drafter, wrong in every way that pairing tells apart.
pub fn misfits(config: &Value) -> Vec<Misfit> {
    let mut misfits = backbone::misfits(config, None);
    misfits.extend([
        // By its other names it is a DFlash drafter.
        misfit(config, "Family", |config| {
            config["model_type"] = json!("qwen3");
            config["architectures"] = json!(["DFlashDraftModel"]);
        }),
        misfit(config, "Layers", |config| config["num_target_layers"] = json!(17)),
        misfit(config, "Width", |config| config["block_size"] = json!(1)),
    ]);
    misfits
}
