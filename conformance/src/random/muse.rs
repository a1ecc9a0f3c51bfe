//! Random Muse Glimmer targets (spec 3), each with an assistant.

use serde_json::{Value, json};

use super::{RandomModel, RandomPair, Weights, assistant, weights::Packed};

const VOCAB: usize = 64;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
/// With it the heads of a row are wider than its residual stream.
const HEAD_DIM: usize = 16;

/// Where the text model lies, and by which names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// In a vision model, as released.
    Vision,
    /// In a vision model, as converted for MLX.
    Converted,
    /// Alone, its fields at the root.
    Text,
}

/// What varies between the shapes.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    layout: Layout,
    hidden: usize,
    /// Which layers see everything; the default pattern if `None`.
    global: Option<&'static [bool]>,
    layers: usize,
    window: usize,
    tied: bool,
    packed: Packed,
    assistant_window: usize,
}

/// One pair for every shape that the loaders tell apart.
pub fn pairs() -> Vec<RandomPair> {
    let plain = Shape {
        name: "plain",
        layout: Layout::Vision,
        hidden: 32,
        global: Some(&[false, false, true, false]),
        layers: 4,
        window: 5,
        tied: false,
        packed: Packed::No,
        assistant_window: 8,
    };
    let shapes = [
        plain,
        Shape {
            name: "text only, tied, default pattern",
            layout: Layout::Text,
            global: None,
            layers: 5,
            window: 1,
            tied: true,
            assistant_window: 11,
            ..plain
        },
        Shape {
            name: "4 bit, converted",
            layout: Layout::Converted,
            hidden: 64,
            window: 16,
            packed: Packed::Affine { bits: 4, group: 32 },
            assistant_window: 300,
            ..plain
        },
    ];
    shapes.iter().enumerate().map(|(seed, shape)| shape.pair(seed as u64)).collect()
}

impl Shape {
    fn pair(&self, seed: u64) -> RandomPair {
        let drafter = assistant::Shape {
            hidden: self.hidden,
            vocab: VOCAB,
            taps: [0, self.layers - 2],
            window: self.assistant_window,
            nested: self.layout == Layout::Converted,
            prefixed: self.layout == Layout::Text,
        };
        RandomPair { name: self.name, target: self.target(seed), drafter: drafter.model(seed + 100) }
    }

    fn config(&self) -> Value {
        let mut text = json!({
            "model_type": "muse_glimmer_text",
            "vocab_size": VOCAB,
            "hidden_size": self.hidden,
            "intermediate_size": 2 * self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "sliding_window": self.window,
            "rope_parameters": { "rope_type": "default", "rope_theta": 10000.0 },
            "qk_scale_factor": 1.6,
            "output_multiplier": 0.5,
            "final_logit_softcapping": 5.0,
            "tie_word_embeddings": self.tied,
            "max_position_embeddings": 2048,
        });
        if let Some(global) = self.global {
            let kind = |global: &bool| if *global { "full_attention" } else { "sliding_attention" };
            let base = |global: &bool| if *global { 0.0 } else { 10000.0 };
            text["layer_types"] = global.iter().map(kind).collect();
            text["layer_rope_theta"] = global.iter().map(base).collect();
        }
        let mut config = match self.layout {
            Layout::Text => text,
            Layout::Vision | Layout::Converted => json!({
                "model_type": "muse_glimmer",
                "max_position_embeddings": 2048,
                "tie_word_embeddings": self.tied,
                "text_config": text,
                "vision_config": { "hidden_size": 16 },
            }),
        };
        if let Packed::Affine { bits, group } = self.packed {
            config["quantization"] = json!({ "bits": bits, "group_size": group, "mode": "affine" });
        }
        config
    }

    fn target(&self, seed: u64) -> RandomModel {
        let (d, f) = (self.hidden, 2 * self.hidden);
        let [prefix, head, vision] = match self.layout {
            Layout::Vision => ["model.language_model", "lm_head", "model.vision_tower"],
            Layout::Converted => ["language_model.model", "language_model.lm_head", "vision_tower"],
            Layout::Text => ["model", "lm_head", "model.vision_adapter"],
        };
        let mut weights = Weights::new(seed, self.packed);
        // A scaleless norm follows the table; the head's logits are halved: deviation about 1.5, so that proposals of a
        // random drafter are accepted now and then.
        weights.table(&format!("{prefix}.embed_tokens"), VOCAB, d, 3.0 / (d as f32).sqrt());
        if !self.tied {
            weights.matrix(head, VOCAB, d, 3.0);
        }
        weights.norm(&format!("{prefix}.norm"), d);
        weights.dense(&format!("{vision}.fc1.weight"), &[4, 8], 0.0, 1.0);
        for layer in 0..self.layers {
            let path = |name: &str| format!("{prefix}.layers.{layer}.{name}");
            for name in [
                "input_layernorm",
                "post_attention_layernorm",
                "pre_feedforward_layernorm",
                "post_feedforward_layernorm",
            ] {
                weights.dense(&format!("{}.weight", path(name)), &[d], 0.0, 0.2);
            }
            let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
            for (name, out, input) in [
                ("self_attn.q_proj", q, d),
                ("self_attn.k_proj", kv, d),
                ("self_attn.v_proj", kv, d),
                ("self_attn.gate_proj", q, d),
                ("self_attn.o_proj", d, q),
                ("mlp.gate_proj", f, d),
                ("mlp.up_proj", f, d),
                ("mlp.down_proj", d, f),
            ] {
                weights.matrix(&path(name), out, input, 1.0);
            }
        }
        RandomModel { config: self.config(), tensors: weights.finish() }
    }
}
