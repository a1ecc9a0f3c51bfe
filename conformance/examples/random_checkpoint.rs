//! Writes checkpoints of real shapes with random weights, for measuring: an LFM2-350M target and a drafter of the DSpark
//! shape for it.
//!
//! `cargo run --release -p conformance --example random_checkpoint -- FOLDER 4|8|16`

use std::{error::Error, path::PathBuf};

use mlxcel_core::checkpoint::{CheckpointWriter, Dtype};
use serde_json::{Value, json};

const VOCAB: usize = 65536;
const HIDDEN: usize = 1024;
const FEED_FORWARD: usize = 4608;
const LAYERS: usize = 16;
const ATTENTION: [usize; 6] = [2, 5, 8, 10, 12, 14];
const HEAD: usize = 64;
const HEADS: usize = 16;
const KV_HEADS: usize = 8;
const GROUP: usize = 64;
const RANK: usize = 256;
const DRAFTER_LAYERS: usize = 5;
const DRAFTER_FEED_FORWARD: usize = 3072;
const TAPS: [usize; 5] = [2, 5, 8, 11, 14];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: random_checkpoint FOLDER BITS, where BITS is 4, 8 or 16";
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    let bits: usize = arguments.next().ok_or(usage)?.parse()?;
    if ![4, 8, 16].contains(&bits) {
        return Err(usage.into());
    }
    target(bits).write(folder.join("target"))?;
    drafter(bits).write(folder.join("drafter"))?;
    Ok(())
}

/// Random weights of one width, and the writer that takes them.
struct Random {
    writer: CheckpointWriter,
    state: u64,
    bits: usize,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Values around 0 of about this deviation.
    fn values(&mut self, count: usize, deviation: f32) -> Vec<f32> {
        let range = deviation * 3f32.sqrt();
        (0..count).map(|_| ((self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * range).collect()
    }

    fn add(&mut self, change: impl FnOnce(CheckpointWriter) -> CheckpointWriter) {
        self.writer = change(std::mem::take(&mut self.writer));
    }

    /// A matrix `[out, input]` whose outputs have about the deviation of its inputs.
    fn matrix(&mut self, path: &str, out: usize, input: usize) {
        let deviation = (input as f32).powf(-0.5);
        if self.bits == 16 {
            let values = self.values(out * input, deviation);
            self.add(|writer| writer.bf16(format!("{path}.weight"), &[out, input], &values));
            return;
        }
        let words = input * self.bits / 32;
        let codes: Vec<u8> = (0..out * words / 2).flat_map(|_| self.next().to_le_bytes()).collect();
        // Codes are spread evenly over 0..2^bits: scale and bias centre them and give the deviation.
        let levels = (1 << self.bits) as f32;
        let scale = deviation * 12f32.sqrt() / levels;
        let groups = [out, input / GROUP];
        let count = out * input / GROUP;
        let (scales, biases) = (vec![scale; count], vec![-scale * (levels - 1.0) / 2.0; count]);
        self.add(|writer| {
            writer
                .tensor(format!("{path}.weight"), Dtype::U32, &[out, words], codes)
                .bf16(format!("{path}.scales"), &groups, &scales)
                .bf16(format!("{path}.biases"), &groups, &biases)
        });
    }

    fn norm(&mut self, path: &str, width: usize) {
        self.add(|writer| writer.bf16(format!("{path}.weight"), &[width], &vec![1.0; width]));
    }
}

fn with_quantization(mut config: Value, bits: usize) -> Value {
    if bits < 16 {
        config["quantization"] = json!({ "bits": bits, "group_size": GROUP, "mode": "affine" });
    }
    config
}

fn target(bits: usize) -> CheckpointWriter {
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
    let mut random = Random { writer, state: 1, bits };
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
    random.writer
}

fn drafter(bits: usize) -> CheckpointWriter {
    let config = json!({
        "model_type": "qwen3", "architectures": ["Lfm2DSparkDraftModel"],
        "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": DRAFTER_LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD,
        "intermediate_size": DRAFTER_FEED_FORWARD, "rms_norm_eps": 1e-5, "rope_theta": 1e6,
        "rope_is_neox_style": false, "block_size": 15, "markov_rank": RANK, "markov_head_type": "vanilla",
        "dflash_config": { "mask_token_id": 5, "target_layer_ids": TAPS, "num_target_layers": LAYERS },
    });
    let writer = CheckpointWriter::new().config(with_quantization(config, bits));
    let mut random = Random { writer, state: 2, bits };
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
    random.writer
}
