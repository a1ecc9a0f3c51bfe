//! Random DSpark drafters (spec 5).

use serde_json::{Value, json};

use super::{RandomModel, Weights, weights::Packed};
use crate::pairing::Misfit;

const LAYERS: usize = 2;
const HEADS: usize = 2;
const KV_HEADS: usize = 1;
const HEAD_DIM: usize = 16;
const RANK: usize = 8;
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
}

impl Shape {
    /// Random weights of this shape.
    pub fn model(&self, seed: u64) -> RandomModel {
        RandomModel { config: self.config(), tensors: self.tensors(seed) }
    }

    fn config(&self) -> Value {
        json!({
            "model_type": "qwen3",
            "architectures": ["DSparkDraftModel"],
            "vocab_size": self.vocab,
            "hidden_size": self.hidden,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "num_hidden_layers": LAYERS,
            "layer_types": vec!["full_attention"; LAYERS],
            "intermediate_size": self.hidden,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "rope_is_neox_style": self.neox,
            "block_size": BLOCK,
            "markov_rank": RANK,
            "markov_head_type": "vanilla",
            "enable_confidence_head": self.confidence,
            "dflash_config": {
                "mask_token_id": self.vocab - 1,
                "target_layer_ids": self.taps,
                "num_target_layers": self.target_layers,
            },
        })
    }

    fn tensors(&self, seed: u64) -> mlxcel_core::checkpoint::CheckpointWriter {
        let (d, vocab) = (self.hidden, self.vocab);
        let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
        let mut weights = Weights::new(seed, Packed::No);
        weights.matrix("fc", d, self.taps.len() * d, 1.0);
        weights.norm("hidden_norm", d);
        weights.norm("norm", d);
        weights.table("markov_head.markov_w1", vocab, RANK, 1.0);
        weights.matrix("markov_head.markov_w2", vocab, RANK, 0.5);
        if self.confidence {
            weights.dense("confidence_head.proj.weight", &[1, d + RANK], 0.0, 0.1);
            weights.bias("confidence_head.proj", 1);
        }
        for layer in 0..LAYERS {
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
        // Without a Markov head it is a DFlash drafter.
        with("Family", &|config| {
            config.as_object_mut().map(|fields| fields.remove("markov_rank"));
        }),
        with("Hidden", &|config| config["hidden_size"] = json!(48)),
        with("Layers", &|config| config["dflash_config"]["num_target_layers"] = json!(17)),
        with("Vocab", &|config| config["vocab_size"] = json!(65)),
        with("NoTaps", &taps(json!([]))),
        with("TapTwice", &taps(json!([1, 1]))),
        with("TapRange", &taps(json!([0, 4]))),
        with("TapRange", &taps(json!([0, 200]))),
        with("MaskToken", &|config| config["dflash_config"]["mask_token_id"] = config["vocab_size"].clone()),
        with("Width", &|config| {
            config["block_size"] = json!(1);
            config["dspark_bonus_anchor"] = json!(true);
        }),
    ]
}
