//! The shape of LFM2-350M, and a drafter of the DSpark shape.

use mlxcel_core::checkpoint::CheckpointWriter;
use serde_json::json;

use super::random::{Random, with_quantization};

const VOCAB: usize = 65536;
const HIDDEN: usize = 1024;
const FEED_FORWARD: usize = 4608;
const LAYERS: usize = 16;
const ATTENTION: [usize; 6] = [2, 5, 8, 10, 12, 14];
const HEAD: usize = 64;
const HEADS: usize = 16;
const KV_HEADS: usize = 8;
const RANK: usize = 256;
const DRAFTER_LAYERS: usize = 5;
const DRAFTER_FEED_FORWARD: usize = 3072;
const TAPS: [usize; 5] = [2, 5, 8, 11, 14];

pub(super) fn target(bits: usize) -> CheckpointWriter {
    let kind = |layer| if ATTENTION.contains(&layer) { "full_attention" } else { "conv" };
    let config = json!({
        "model_type": "lfm2", "architectures": ["Lfm2ForCausalLM"],
        "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "intermediate_size": FEED_FORWARD, "block_auto_adjust_ff_dim": false,
        "layer_types": (0..LAYERS).map(kind).collect::<Vec<_>>(),
        "conv_L_cache": 3, "conv_bias": false, "norm_eps": 1e-5, "rope_theta": 1e6,
        "tie_embedding": true, "max_position_embeddings": 128_000,
    });
    let writer = CheckpointWriter::new().config(with_quantization(config, bits));
    let mut random = Random::new(writer, 1, bits);
    random.matrix("model.embed_tokens", VOCAB, HIDDEN);
    random.norm("model.embedding_norm", HIDDEN);
    for layer in 0..LAYERS {
        let path = |name: &str| format!("model.layers.{layer}.{name}");
        random.norm(&path("operator_norm"), HIDDEN);
        random.norm(&path("ffn_norm"), HIDDEN);
        if ATTENTION.contains(&layer) {
            random.matrix(&path("self_attn.q_proj"), HEADS * HEAD, HIDDEN);
            random.matrix(&path("self_attn.k_proj"), KV_HEADS * HEAD, HIDDEN);
            random.matrix(&path("self_attn.v_proj"), KV_HEADS * HEAD, HIDDEN);
            random.matrix(&path("self_attn.out_proj"), HIDDEN, HEADS * HEAD);
            random.norm(&path("self_attn.q_layernorm"), HEAD);
            random.norm(&path("self_attn.k_layernorm"), HEAD);
        } else {
            random.matrix(&path("conv.in_proj"), 3 * HIDDEN, HIDDEN);
            random.matrix(&path("conv.out_proj"), HIDDEN, HIDDEN);
            let kernel = random.values(HIDDEN * 3, 0.5);
            random.add(|writer| writer.bf16(path("conv.conv.weight"), &[HIDDEN, 3, 1], &kernel));
        }
        random.matrix(&path("feed_forward.w1"), FEED_FORWARD, HIDDEN);
        random.matrix(&path("feed_forward.w3"), FEED_FORWARD, HIDDEN);
        random.matrix(&path("feed_forward.w2"), HIDDEN, FEED_FORWARD);
    }
    random.finish()
}

pub(super) fn drafter(bits: usize) -> CheckpointWriter {
    let config = json!({
        "model_type": "qwen3", "architectures": ["Lfm2DSparkDraftModel"],
        "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": DRAFTER_LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD,
        "intermediate_size": DRAFTER_FEED_FORWARD, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
        "rope_is_neox_style": false, "block_size": 15, "markov_rank": RANK, "markov_head_type": "vanilla",
        "dflash_config": { "mask_token_id": 5, "target_layer_ids": TAPS, "num_target_layers": LAYERS },
    });
    let writer = CheckpointWriter::new().config(with_quantization(config, bits));
    let mut random = Random::new(writer, 2, bits);
    random.matrix("fc", HIDDEN, TAPS.len() * HIDDEN);
    random.norm("hidden_norm", HIDDEN);
    random.norm("norm", HIDDEN);
    random.matrix("markov_head.markov_w1", VOCAB, RANK);
    random.matrix("markov_head.markov_w2", VOCAB, RANK);
    for layer in 0..DRAFTER_LAYERS {
        let path = |name: &str| format!("layers.{layer}.{name}");
        random.norm(&path("input_layernorm"), HIDDEN);
        random.norm(&path("post_attention_layernorm"), HIDDEN);
        random.norm(&path("self_attn.q_norm"), HEAD);
        random.norm(&path("self_attn.k_norm"), HEAD);
        random.matrix(&path("self_attn.q_proj"), HEADS * HEAD, HIDDEN);
        random.matrix(&path("self_attn.k_proj"), KV_HEADS * HEAD, HIDDEN);
        random.matrix(&path("self_attn.v_proj"), KV_HEADS * HEAD, HIDDEN);
        random.matrix(&path("self_attn.o_proj"), HIDDEN, HEADS * HEAD);
        random.matrix(&path("mlp.gate_proj"), DRAFTER_FEED_FORWARD, HIDDEN);
        random.matrix(&path("mlp.up_proj"), DRAFTER_FEED_FORWARD, HIDDEN);
        random.matrix(&path("mlp.down_proj"), HIDDEN, DRAFTER_FEED_FORWARD);
    }
    random.finish()
}
