//! Random LFM2 targets (spec 1), each with a DSpark drafter.

use serde_json::{Value, json};

use super::{RandomModel, RandomPair, Weights, dspark, weights::Packed};

/// What varies between the shapes.
struct Shape {
    name: &'static str,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    /// Which layers are attention.
    attention: &'static [bool],
    kernel: usize,
    conv_bias: bool,
    tied: bool,
    packed: Packed,
}

const VOCAB: usize = 64;

const PLAIN: Shape = Shape {
    name: "plain",
    hidden: 32,
    heads: 4,
    kv_heads: 2,
    attention: &[false, true, false, true],
    kernel: 3,
    conv_bias: false,
    tied: true,
    packed: Packed::No,
};

/// A pair whose matrices are all stored in one way, the drafter's too.
pub fn stored(packed: Packed, tied: bool) -> RandomPair {
    // Rows of every matrix are whole groups.
    let hidden = if let Packed::Affine { group: 128, .. } = packed { 128 } else { 64 };
    Shape { name: "stored", hidden, tied, packed, ..PLAIN }.pair(40)
}

/// One pair for every shape that the loader tells apart.
pub fn pairs() -> Vec<RandomPair> {
    let plain = PLAIN;
    let shapes = [
        Shape { name: "conv bias, untied", conv_bias: true, tied: false, kernel: 4, ..plain },
        Shape {
            name: "odd heads",
            hidden: 24,
            heads: 3,
            kv_heads: 1,
            attention: &[true, false, false],
            kernel: 2,
            ..plain
        },
        Shape { name: "4 bit", hidden: 64, packed: Packed::Affine { bits: 4, group: 32 }, ..plain },
        Shape {
            name: "8 bit, untied",
            hidden: 64,
            tied: false,
            attention: &[false, true, true, false],
            packed: Packed::Affine { bits: 8, group: 64 },
            ..plain
        },
        plain,
    ];
    shapes.iter().enumerate().map(|(seed, shape)| shape.pair(seed as u64)).collect()
}

impl Shape {
    fn pair(&self, seed: u64) -> RandomPair {
        let layers = self.attention.len();
        let drafter = dspark::Shape {
            hidden: self.hidden,
            vocab: VOCAB,
            target_layers: layers,
            taps: [0, layers - 2],
            neox: seed.is_multiple_of(2),
            confidence: !seed.is_multiple_of(3),
            packed: self.packed,
        };
        RandomPair { name: self.name, target: self.target(seed), drafter: drafter.model(seed + 100) }
    }

    fn config(&self) -> Value {
        let kind = |attention: &bool| if *attention { "full_attention" } else { "conv" };
        let mut config = json!({
            "model_type": "lfm2",
            "architectures": ["Lfm2ForCausalLM"],
            "vocab_size": VOCAB,
            "hidden_size": self.hidden,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "num_hidden_layers": self.attention.len(),
            "layer_types": self.attention.iter().map(kind).collect::<Vec<_>>(),
            "intermediate_size": 2 * self.hidden,
            "block_auto_adjust_ff_dim": false,
            "conv_L_cache": self.kernel,
            "conv_bias": self.conv_bias,
            "norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "tie_embedding": self.tied,
            "max_position_embeddings": 2048,
        });
        if let Some(block) = self.packed.block() {
            config["quantization"] = block;
        }
        config
    }

    fn target(&self, seed: u64) -> RandomModel {
        let (d, f) = (self.hidden, 2 * self.hidden);
        let head_dim = d / self.heads;
        let mut weights = Weights::new(seed, self.packed);
        // Logits of deviation about 1.5: proposals of a random drafter are then accepted now and then.
        weights.table("model.embed_tokens", VOCAB, d, 1.5 / (d as f32).sqrt());
        if !self.tied {
            weights.matrix("lm_head", VOCAB, d, 1.5);
        }
        weights.norm("model.embedding_norm", d);
        for (layer, attention) in self.attention.iter().enumerate() {
            let path = |name: &str| format!("model.layers.{layer}.{name}");
            weights.norm(&path("operator_norm"), d);
            weights.norm(&path("ffn_norm"), d);
            if *attention {
                let kv = self.kv_heads * head_dim;
                for (name, out) in [("q_proj", d), ("k_proj", kv), ("v_proj", kv), ("out_proj", d)] {
                    weights.matrix(&path(&format!("self_attn.{name}")), out, d, 1.0);
                }
                weights.norm(&path("self_attn.q_layernorm"), head_dim);
                weights.norm(&path("self_attn.k_layernorm"), head_dim);
            } else {
                for (name, out) in [("conv.in_proj", 3 * d), ("conv.out_proj", d)] {
                    weights.matrix(&path(name), out, d, 1.0);
                    if self.conv_bias {
                        weights.bias(&path(name), out);
                    }
                }
                weights.dense(&path("conv.conv.weight"), &[d, 1, self.kernel], 0.0, 0.6);
                if self.conv_bias {
                    weights.bias(&path("conv.conv"), d);
                }
            }
            for (name, out, input) in [("w1", f, d), ("w3", f, d), ("w2", d, f)] {
                weights.matrix(&path(&format!("feed_forward.{name}")), out, input, 1.0);
            }
        }
        RandomModel { config: self.config(), tensors: weights.finish() }
    }
}
