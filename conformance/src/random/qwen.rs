//! Random Qwen 3.5 targets (spec 2), each with a DFlash drafter.

use serde_json::{Value, json};

use super::{RandomModel, RandomPair, Weights, dflash, weights::Packed};

const VOCAB: usize = 64;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 16;
const KEY_HEADS: usize = 2;
const KEY_DIM: usize = 16;
const VALUE_DIM: usize = 16;

/// What varies between the shapes.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    hidden: usize,
    /// Which layers are attention.
    full: &'static [bool],
    value_heads: usize,
    kernel: usize,
    attention_bias: bool,
    tied: bool,
    /// Whether the text model lies inside a vision model, with its prefix.
    wrapped: bool,
    /// Whether convolutions are transposed and norms stored around 1.
    converted: bool,
    packed: Packed,
    drafter: Drafter,
}

/// What varies between the drafters.
#[derive(Clone, Copy)]
enum Drafter {
    Full,
    /// Causal sliding layers, and one that sees everything.
    Sliding,
    /// Bidirectional sliding layers only.
    Within,
    /// Causal throughout, with all factors.
    Causal,
}

/// One pair for every shape that the loaders tell apart.
pub fn pairs() -> Vec<RandomPair> {
    let plain = Shape {
        name: "plain",
        hidden: 32,
        full: &[false, true, false, true],
        value_heads: 4,
        kernel: 4,
        attention_bias: false,
        tied: true,
        wrapped: false,
        converted: false,
        packed: Packed::No,
        drafter: Drafter::Full,
    };
    let shapes = [
        plain,
        Shape {
            name: "wrapped, bias, untied",
            wrapped: true,
            attention_bias: true,
            tied: false,
            kernel: 2,
            drafter: Drafter::Sliding,
            ..plain
        },
        Shape {
            name: "converted, odd heads",
            converted: true,
            wrapped: true,
            value_heads: 6,
            full: &[false, false, true],
            kernel: 3,
            drafter: Drafter::Within,
            ..plain
        },
        Shape {
            name: "4 bit",
            converted: true,
            hidden: 64,
            packed: Packed::Affine { bits: 4, group: 32 },
            drafter: Drafter::Causal,
            ..plain
        },
    ];
    shapes.iter().enumerate().map(|(seed, shape)| shape.pair(seed as u64)).collect()
}

impl Shape {
    fn pair(&self, seed: u64) -> RandomPair {
        let layers = self.full.len();
        let (sliding, causal): (Option<(&[bool], usize)>, _) = match self.drafter {
            Drafter::Full => (None, None),
            Drafter::Sliding => (Some((&[true, true, false], 9)), None),
            Drafter::Within => (Some((&[true, true], 8)), Some(false)),
            Drafter::Causal => (Some((&[false, true], 8)), Some(true)),
        };
        let drafter = dflash::Shape {
            hidden: self.hidden,
            vocab: VOCAB,
            target_layers: layers,
            taps: [0, layers - 2],
            sliding,
            causal,
            scaled: matches!(self.drafter, Drafter::Causal),
        };
        RandomPair { name: self.name, target: self.target(seed), drafter: drafter.model(seed + 100) }
    }

    fn config(&self) -> Value {
        let kind = |full: &bool| if *full { "full_attention" } else { "linear_attention" };
        let interval = self.full.iter().position(|full| *full).map_or(0, |first| first + 1);
        let mut config = json!({
            "model_type": "qwen3_5_text",
            "vocab_size": VOCAB,
            "hidden_size": self.hidden,
            "intermediate_size": 2 * self.hidden,
            "num_hidden_layers": self.full.len(),
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "attention_bias": self.attention_bias,
            "attn_output_gate": true,
            "hidden_act": "silu",
            "full_attention_interval": interval,
            "layer_types": self.full.iter().map(kind).collect::<Vec<_>>(),
            "linear_conv_kernel_dim": self.kernel,
            "linear_key_head_dim": KEY_DIM,
            "linear_value_head_dim": VALUE_DIM,
            "linear_num_key_heads": KEY_HEADS,
            "linear_num_value_heads": self.value_heads,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
                "mrope_section": [2, 1, 1],
                "mrope_interleaved": true,
            },
            "tie_word_embeddings": self.tied,
            "max_position_embeddings": 2048,
        });
        if let Packed::Affine { bits, group } = self.packed {
            config["quantization"] = json!({ "bits": bits, "group_size": group, "mode": "affine" });
        }
        if !self.wrapped {
            return config;
        }
        json!({ "model_type": "qwen3_5", "tie_word_embeddings": self.tied, "text_config": config })
    }

    fn target(&self, seed: u64) -> RandomModel {
        let (d, f) = (self.hidden, 2 * self.hidden);
        let [prefix, head] = match (self.wrapped, self.converted) {
            (false, _) => ["model", "lm_head"],
            (true, false) => ["model.language_model", "lm_head"],
            (true, true) => ["language_model.model", "language_model.lm_head"],
        };
        let mut weights = Weights::new(seed, self.packed);
        let norm = |weights: &mut Weights, path: &str, width| {
            let mean = if self.converted { 1.0 } else { 0.0 };
            weights.dense(&format!("{path}.weight"), &[width], mean, 0.2);
        };
        // Logits of deviation about 1.5: proposals of a random drafter are then accepted now and then.
        weights.table(&format!("{prefix}.embed_tokens"), VOCAB, d, 1.5 / (d as f32).sqrt());
        if !self.tied {
            weights.matrix(head, VOCAB, d, 1.5);
        }
        norm(&mut weights, &format!("{prefix}.norm"), d);
        weights.dense("mtp.norm.weight", &[d], 0.0, 1.0);
        weights.dense("model.visual.pos_embed.weight", &[4, 8], 0.0, 1.0);
        for (layer, full) in self.full.iter().enumerate() {
            let path = |name: &str| format!("{prefix}.layers.{layer}.{name}");
            norm(&mut weights, &path("input_layernorm"), d);
            norm(&mut weights, &path("post_attention_layernorm"), d);
            if *full {
                let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
                for (name, out, input) in
                    [("q_proj", 2 * q, d), ("k_proj", kv, d), ("v_proj", kv, d), ("o_proj", d, q)]
                {
                    let path = path(&format!("self_attn.{name}"));
                    weights.matrix(&path, out, input, 1.0);
                    if self.attention_bias {
                        weights.bias(&path, out);
                    }
                }
                norm(&mut weights, &path("self_attn.q_norm"), HEAD_DIM);
                norm(&mut weights, &path("self_attn.k_norm"), HEAD_DIM);
            } else {
                self.delta(&mut weights, &path("linear_attn"));
            }
            for (name, out, input) in [("gate_proj", f, d), ("up_proj", f, d), ("down_proj", d, f)] {
                weights.matrix(&path(&format!("mlp.{name}")), out, input, 1.0);
            }
        }
        RandomModel { config: self.config(), tensors: weights.finish() }
    }

    fn delta(&self, weights: &mut Weights, path: &str) {
        let (d, heads, values) = (self.hidden, self.value_heads, self.value_heads * VALUE_DIM);
        let channels = 2 * KEY_HEADS * KEY_DIM + values;
        for (name, out) in
            [("in_proj_qkv", channels), ("in_proj_z", values), ("in_proj_b", heads), ("in_proj_a", heads)]
        {
            weights.matrix(&format!("{path}.{name}"), out, d, 1.0);
        }
        weights.matrix(&format!("{path}.out_proj"), d, values, 1.0);
        let shape = if self.converted { [channels, self.kernel, 1] } else { [channels, 1, self.kernel] };
        weights.dense(&format!("{path}.conv1d.weight"), &shape, 0.0, 0.6);
        // States that remember some ten rows.
        weights.dense(&format!("{path}.A_log"), &[heads], -2.0, 0.5);
        weights.dense(&format!("{path}.dt_bias"), &[heads], 0.0, 0.5);
        weights.norm(&format!("{path}.norm"), VALUE_DIM);
    }
}
