//! Random DFlash drafters (spec 4).

use serde_json::{Value, json};

use super::{RandomModel, Weights, weights::Packed};
use crate::pairing::Misfit;

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
        RandomModel { config: self.config(), tensors: self.tensors(seed) }
    }

    fn layers(&self) -> usize {
        self.sliding.map_or(2, |(sliding, _)| sliding.len())
    }

    fn config(&self) -> Value {
        let mut config = json!({
            "model_type": "qwen3",
            "architectures": ["DFlashDraftModel"],
            "vocab_size": self.vocab,
            "hidden_size": self.hidden,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "num_hidden_layers": self.layers(),
            "intermediate_size": self.hidden,
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

    fn tensors(&self, seed: u64) -> mlxcel_core::checkpoint::CheckpointWriter {
        let d = self.hidden;
        let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
        let mut weights = Weights::new(seed, Packed::No);
        weights.matrix("fc", d, self.taps.len() * d, 1.0);
        weights.norm("hidden_norm", d);
        weights.norm("norm", d);
        for layer in 0..self.layers() {
            let path = |name: &str| format!("layers.{layer}.{name}");
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

/// The config of a drafter, wrong in every way that pairing tells apart.
pub fn misfits(config: &Value) -> Vec<Misfit> {
    let with = |refusal, change: &dyn Fn(&mut Value)| {
        let mut config = config.clone();
        change(&mut config);
        Misfit { refusal, config }
    };
    let taps =
        |taps: Value| move |config: &mut Value| config["dflash_config"]["target_layer_ids"] = taps.clone();
    vec![
        // With a Markov head it is a DSpark drafter.
        with("Family", &|config| config["markov_rank"] = json!(8)),
        with("Hidden", &|config| config["hidden_size"] = json!(48)),
        with("Layers", &|config| config["num_target_layers"] = json!(17)),
        with("Vocab", &|config| config["vocab_size"] = json!(65)),
        with("NoTaps", &taps(json!([]))),
        with("TapTwice", &taps(json!([1, 1]))),
        with("TapRange", &taps(json!([0, 4]))),
        with("TapRange", &taps(json!([0, 200]))),
        with("MaskToken", &|config| config["dflash_config"]["mask_token_id"] = config["vocab_size"].clone()),
        with("Width", &|config| config["block_size"] = json!(1)),
    ]
}
