//! The shape of Muse Glimmer, with a few of its 52 layers: three that slide and one that sees everything.

use mlxcel_core::checkpoint::CheckpointWriter;
use serde_json::json;

use super::{
    dflash,
    random::{Random, with_quantization},
};

const VOCAB: usize = 202_048;
const HIDDEN: usize = 6656;
const FEED_FORWARD: usize = 19_968;
const LAYERS: usize = 4;
const HEADS: usize = 32;
const KV_HEADS: usize = 2;
const HEAD: usize = 128;

pub(super) fn target(bits: usize) -> CheckpointWriter {
    let config = json!({
        "model_type": "muse_glimmer_text",
        "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD,
        "intermediate_size": FEED_FORWARD, "sliding_window": 2048, "tie_word_embeddings": false,
        "max_position_embeddings": 131_072,
    });
    let mut random = Random::new(CheckpointWriter::new().config(with_quantization(config, bits)), 1, bits);
    random.matrix("model.embed_tokens", VOCAB, HIDDEN);
    random.matrix("lm_head", VOCAB, HIDDEN);
    random.norm("model.norm", HIDDEN);
    for layer in 0..LAYERS {
        let path = |name: &str| format!("model.layers.{layer}.{name}");
        for name in [
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
        ] {
            random.norm(&path(name), HIDDEN);
        }
        random.matrix(&path("self_attn.q_proj"), HEADS * HEAD, HIDDEN);
        random.matrix(&path("self_attn.k_proj"), KV_HEADS * HEAD, HIDDEN);
        random.matrix(&path("self_attn.v_proj"), KV_HEADS * HEAD, HIDDEN);
        random.matrix(&path("self_attn.gate_proj"), HEADS * HEAD, HIDDEN);
        random.matrix(&path("self_attn.o_proj"), HIDDEN, HEADS * HEAD);
        random.matrix(&path("mlp.gate_proj"), FEED_FORWARD, HIDDEN);
        random.matrix(&path("mlp.up_proj"), FEED_FORWARD, HIDDEN);
        random.matrix(&path("mlp.down_proj"), HIDDEN, FEED_FORWARD);
    }
    random.finish()
}

/// Of the assistant's five layers two, so that it is to its target what the real one is to its.
pub(super) fn drafter(bits: usize) -> CheckpointWriter {
    let shape = dflash::Shape {
        hidden: HIDDEN,
        feed_forward: FEED_FORWARD,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        taps: [1, 2],
    };
    let config = json!({
        "model_type": "muse_glimmer_assistant", "sliding_window": 2048, "block_size": 16,
        "mask_token_id": 201_818, "target_layer_ids": shape.taps,
    });
    shape.write(config, ["encoder.fc", "encoder.output_norm_enc"], bits)
}
