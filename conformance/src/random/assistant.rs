//! Random Muse assistants (spec 6).

use mlxcel_core::checkpoint::CheckpointWriter;
use serde_json::{Value, json};

use super::{RandomModel, Weights, weights::Packed};
use crate::pairing::Misfit;

const LAYERS: usize = 2;
const HEADS: usize = 2;
const KV_HEADS: usize = 1;
const HEAD_DIM: usize = 16;
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
        RandomModel { config: self.config(), tensors: self.tensors(seed) }
    }

    fn config(&self) -> Value {
        let mut config = json!({
            "model_type": "muse_glimmer_assistant",
            "architectures": ["MuseGlimmerAssistantModel"],
            "hidden_size": self.hidden,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "num_hidden_layers": LAYERS,
            "layer_types": vec!["sliding_attention"; LAYERS],
            "sliding_window": self.window,
            "intermediate_size": self.hidden,
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

    fn tensors(&self, seed: u64) -> CheckpointWriter {
        let d = self.hidden;
        let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
        let path = |name: &str| if self.prefixed { format!("model.{name}") } else { name.to_owned() };
        let mut weights = Weights::new(seed, Packed::No);
        weights.matrix(&path("encoder.fc"), d, self.taps.len() * d, 1.0);
        weights.norm(&path("encoder.output_norm_enc"), d);
        weights.norm(&path("norm"), d);
        for layer in 0..LAYERS {
            let path = |name: &str| path(&format!("layers.{layer}.{name}"));
            weights.norm(&path("input_layernorm"), d);
            weights.norm(&path("post_attention_layernorm"), d);
            weights.norm(&path("self_attn.q_norm"), HEAD_DIM);
            weights.norm(&path("self_attn.k_norm"), HEAD_DIM);
            for (name, out, input) in [
                ("self_attn.q_proj", q, d),
                ("self_attn.k_proj", kv, d),
                ("self_attn.v_proj", kv, d),
                ("self_attn.o_proj", d, q),
                ("mlp.gate_proj", d, d),
                ("mlp.up_proj", d, d),
                ("mlp.down_proj", d, d),
            ] {
                weights.matrix(&path(name), out, input, 1.0);
            }
        }
        weights.finish()
    }
}

/// The config of a flat drafter, wrong in every way that pairing tells apart.
pub fn misfits(config: &Value) -> Vec<Misfit> {
    let with = |refusal, change: &dyn Fn(&mut Value)| {
        let mut config = config.clone();
        change(&mut config);
        Misfit { refusal, config }
    };
    let set = |field: &'static str, value: Value| move |config: &mut Value| config[field] = value.clone();
    vec![
        // By its other names it is a DFlash drafter.
        with("Family", &|config| {
            config["model_type"] = json!("qwen3");
            config["architectures"] = json!(["DFlashDraftModel"]);
        }),
        with("Hidden", &set("hidden_size", json!(48))),
        with("Layers", &set("num_target_layers", json!(17))),
        with("Vocab", &set("vocab_size", json!(65))),
        with("NoTaps", &set("target_layer_ids", json!([]))),
        with("TapTwice", &set("target_layer_ids", json!([1, 1]))),
        // The last layer's residual stream is known normed only.
        with("TapRange", &set("target_layer_ids", json!([0, 4]))),
        with("TapRange", &set("target_layer_ids", json!([0, 200]))),
        with("MaskToken", &set("mask_token_id", json!(64))),
        with("Width", &set("block_size", json!(1))),
    ]
}
