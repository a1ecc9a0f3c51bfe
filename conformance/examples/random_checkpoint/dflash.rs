//! Drafters of the DFlash shape, a layer for every tap.

use mlxcel_core::checkpoint::CheckpointWriter;
use serde_json::{Value, json};

use super::random::{Random, with_quantization};

pub(super) struct Shape<const LAYERS: usize> {
    pub(super) hidden: usize,
    pub(super) feed_forward: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) taps: [usize; LAYERS],
}

impl<const LAYERS: usize> Shape<LAYERS> {
    /// Random weights under `config`, which says what is particular; `encoder` names the matrix over the taps and the norm
    /// behind it.
    pub(super) fn write(&self, mut config: Value, encoder: [&str; 2], bits: usize) -> CheckpointWriter {
        let (d, f) = (self.hidden, self.feed_forward);
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        for (name, value) in [
            ("hidden_size", d),
            ("intermediate_size", f),
            ("num_hidden_layers", LAYERS),
            ("num_attention_heads", self.heads),
            ("num_key_value_heads", self.kv_heads),
            ("head_dim", self.head_dim),
        ] {
            config[name] = json!(value);
        }
        let writer = CheckpointWriter::new().config(with_quantization(config, bits));
        let mut random = Random::new(writer, 2, bits);
        random.matrix(encoder[0], d, LAYERS * d);
        random.norm(encoder[1], d);
        random.norm("norm", d);
        for layer in 0..LAYERS {
            let path = |name: &str| format!("layers.{layer}.{name}");
            random.norm(&path("input_layernorm"), d);
            random.norm(&path("post_attention_layernorm"), d);
            random.norm(&path("self_attn.q_norm"), self.head_dim);
            random.norm(&path("self_attn.k_norm"), self.head_dim);
            random.matrix(&path("self_attn.q_proj"), q, d);
            random.matrix(&path("self_attn.k_proj"), kv, d);
            random.matrix(&path("self_attn.v_proj"), kv, d);
            random.matrix(&path("self_attn.o_proj"), d, q);
            random.matrix(&path("mlp.gate_proj"), f, d);
            random.matrix(&path("mlp.up_proj"), f, d);
            random.matrix(&path("mlp.down_proj"), d, f);
        }
        random.finish()
    }
}
