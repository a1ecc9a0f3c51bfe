//! The shape of Qwen 3.5 0.8B, in the text-only layout as converted for MLX.

use mlxcel_core::checkpoint::CheckpointWriter;
use serde_json::json;

use super::{
    dflash,
    random::{Random, with_quantization},
};

const VOCAB: usize = 248_320;
const HIDDEN: usize = 1024;
const FEED_FORWARD: usize = 3584;
const LAYERS: usize = 24;
const HEADS: usize = 8;
const KV_HEADS: usize = 2;
const HEAD: usize = 256;
/// Key and value heads of the delta nets.
const DELTA_HEADS: usize = 16;
const DELTA_HEAD: usize = 128;
const TAPS: usize = 4;

pub(super) fn target(bits: usize) -> CheckpointWriter {
    let config = json!({
        "model_type": "qwen3_5_text",
        "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD,
        "intermediate_size": FEED_FORWARD, "full_attention_interval": 4,
        "linear_conv_kernel_dim": TAPS, "linear_key_head_dim": DELTA_HEAD, "linear_value_head_dim": DELTA_HEAD,
        "linear_num_key_heads": DELTA_HEADS, "linear_num_value_heads": DELTA_HEADS,
        "rope_parameters": { "rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25 },
        "tie_word_embeddings": true, "max_position_embeddings": 262_144,
    });
    let mut random = Random::new(CheckpointWriter::new().config(with_quantization(config, bits)), 1, bits);
    random.matrix("model.embed_tokens", VOCAB, HIDDEN);
    random.norm("model.norm", HIDDEN);
    for layer in 0..LAYERS {
        let path = |name: &str| format!("model.layers.{layer}.{name}");
        random.norm(&path("input_layernorm"), HIDDEN);
        random.norm(&path("post_attention_layernorm"), HIDDEN);
        if (layer + 1) % 4 == 0 {
            random.matrix(&path("self_attn.q_proj"), 2 * HEADS * HEAD, HIDDEN);
            random.matrix(&path("self_attn.k_proj"), KV_HEADS * HEAD, HIDDEN);
            random.matrix(&path("self_attn.v_proj"), KV_HEADS * HEAD, HIDDEN);
            random.matrix(&path("self_attn.o_proj"), HIDDEN, HEADS * HEAD);
            random.norm(&path("self_attn.q_norm"), HEAD);
            random.norm(&path("self_attn.k_norm"), HEAD);
        } else {
            let (values, channels) = (DELTA_HEADS * DELTA_HEAD, 3 * DELTA_HEADS * DELTA_HEAD);
            random.matrix(&path("linear_attn.in_proj_qkv"), channels, HIDDEN);
            random.matrix(&path("linear_attn.in_proj_z"), values, HIDDEN);
            random.matrix(&path("linear_attn.in_proj_b"), DELTA_HEADS, HIDDEN);
            random.matrix(&path("linear_attn.in_proj_a"), DELTA_HEADS, HIDDEN);
            random.matrix(&path("linear_attn.out_proj"), HIDDEN, values);
            let kernel = random.values(channels * TAPS, 0.5);
            let shape = [channels, TAPS, 1];
            random.add(|writer| writer.bf16(path("linear_attn.conv1d.weight"), &shape, &kernel));
            let decay = random.values(DELTA_HEADS, 0.5);
            random.add(|writer| writer.f32(path("linear_attn.A_log"), &[DELTA_HEADS], &decay));
            random.add(|writer| writer.bf16(path("linear_attn.dt_bias"), &[DELTA_HEADS], &decay));
            random.norm(&path("linear_attn.norm"), DELTA_HEAD);
        }
        random.matrix(&path("mlp.gate_proj"), FEED_FORWARD, HIDDEN);
        random.matrix(&path("mlp.up_proj"), FEED_FORWARD, HIDDEN);
        random.matrix(&path("mlp.down_proj"), HIDDEN, FEED_FORWARD);
    }
    random.finish()
}

pub(super) fn drafter(bits: usize) -> CheckpointWriter {
    let shape = dflash::Shape {
        hidden: HIDDEN,
        feed_forward: 3072,
        heads: 16,
        kv_heads: 8,
        head_dim: 128,
        taps: [1, 6, 11, 16, 21],
    };
    let config = json!({
        "model_type": "qwen3", "architectures": ["DFlashDraftModel"], "vocab_size": VOCAB,
        "rope_theta": 1e7, "block_size": 16, "num_target_layers": LAYERS,
        "dflash_config": { "mask_token_id": 248_070, "target_layer_ids": shape.taps },
    });
    shape.write(config, ["fc", "hidden_norm"], bits)
}
