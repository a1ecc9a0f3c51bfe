//! The fields of `config.json`.

use mlxcel_core::{
    Result, TokenId,
    checkpoint::{Checkpoint, LAYERS, NORM_EPS},
    family::suppressed,
    nn::Attention,
};

/// Shape of a model.
pub(crate) struct Config {
    pub(crate) vocab: usize,
    pub(crate) hidden: usize,
    pub(crate) feed_forward: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) norm_eps: f32,
    pub(crate) rope_theta: f32,
    pub(crate) context: usize,
    pub(crate) suppressed: Vec<TokenId>,
}

impl Config {
    pub(crate) fn read(checkpoint: &Checkpoint) -> Result<Self> {
        let json = checkpoint.config();
        json.only_silu()?;
        let head_dim = json.dim("head_dim")?;
        if !Attention::runs(head_dim) {
            return json.reject("head_dim", "a multiple of 8 up to 256");
        }
        let (heads, kv_heads) = json.heads((32, 8))?;
        Ok(Self {
            vocab: json.dim("vocab_size")?,
            hidden: json.dim("hidden_size")?,
            feed_forward: json.dim("intermediate_size")?,
            layers: json.int("num_hidden_layers", LAYERS)?,
            heads,
            kv_heads,
            head_dim,
            norm_eps: json.float_in("rms_norm_eps", NORM_EPS)? as f32,
            rope_theta: json.rope_base(10_000.0)? as f32,
            context: json.dim("max_position_embeddings")?,
            suppressed: suppressed(checkpoint, json, &[])?,
        })
    }
}
