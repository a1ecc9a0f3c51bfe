//! The fields of `config.json` (spec 1.1).

use mlxcel_core::{
    Result, TokenId,
    checkpoint::{Checkpoint, Config as Json, LAYERS, NORM_EPS},
    family::suppressed,
    nn::Attention,
};

/// The operator of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    /// Gated short convolution.
    Conv,
    /// Grouped-query attention.
    Attention,
}

/// Shape of an LFM2 model.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) vocab: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) feed_forward: usize,
    pub(crate) conv_taps: usize,
    pub(crate) conv_bias: bool,
    pub(crate) norm_eps: f32,
    pub(crate) rope_theta: f32,
    pub(crate) operators: Vec<Operator>,
    pub(crate) tied: bool,
    pub(crate) context: usize,
    pub(crate) suppressed: Vec<TokenId>,
}

impl Config {
    pub(crate) fn read(checkpoint: &Checkpoint) -> Result<Self> {
        let json = checkpoint.config();
        let hidden = json.dim_or("hidden_size", 2560)?;
        let (heads, kv_heads) = json.heads((32, 8))?;
        let conv_taps = json.dim_or("conv_L_cache", 3)?;
        if hidden % heads != 0 {
            return json.reject("hidden_size", &format!("a multiple of num_attention_heads ({heads})"));
        }
        if !Attention::runs(hidden / heads) {
            let head_dims = "a multiple of 8 up to 256 for each of num_attention_heads";
            return json.reject("hidden_size", &format!("{head_dims} ({heads})"));
        }
        if !(2..=8).contains(&conv_taps) {
            return json.reject("conv_L_cache", "2 to 8 taps");
        }
        let tied = match json.opt_bool("tie_embedding")? {
            Some(tied) => tied,
            None => json.bool_or("tie_word_embeddings", true)?,
        };
        Ok(Self {
            vocab: json.dim_or("vocab_size", 65536)?,
            hidden,
            heads,
            kv_heads,
            feed_forward: feed_forward(json)?,
            conv_taps,
            conv_bias: json.bool_or("conv_bias", false)?,
            norm_eps: json.opt_float_in("norm_eps", NORM_EPS)?.unwrap_or(1e-5) as f32,
            rope_theta: json.rope_base(1e6)? as f32,
            operators: operators(json)?,
            tied,
            context: json.dim_or("max_position_embeddings", 128_000)?,
            suppressed: suppressed(checkpoint, json, &[])?,
        })
    }

    pub(crate) fn head_dim(&self) -> usize {
        self.hidden / self.heads
    }
}

/// `F = ff; if adjusted: 2F/3; · multiplier; up to a multiple` (spec 1.1).
fn feed_forward(json: &Json) -> Result<usize> {
    let own = json.opt_dim("block_ff_dim")?;
    let Some(mut width) = own.map_or_else(|| json.opt_dim("intermediate_size"), |own| Ok(Some(own)))? else {
        return json.reject("block_ff_dim", "a width here or in intermediate_size, which are both missing");
    };
    if json.bool_or("block_auto_adjust_ff_dim", true)? {
        width = 2 * width / 3;
        if let Some(multiplier) = json.opt_float_in("block_ffn_dim_multiplier", 0.0..=64.0)? {
            width = (multiplier * width as f64) as usize;
        }
        let multiple = json.dim_or("block_multiple_of", 256)?;
        width = width.div_ceil(multiple) * multiple;
    }
    Ok(width)
}

/// `layer_types`, else `full_attn_idxs`.
fn operators(json: &Json) -> Result<Vec<Operator>> {
    let layers = json.opt_int("num_hidden_layers", LAYERS)?.unwrap_or(32);
    let operators = if let Some(types) = json.opt_list_of_str("layer_types")? {
        let operator = |name: &&str| match *name {
            "conv" => Ok(Operator::Conv),
            "full_attention" => Ok(Operator::Attention),
            _ => json.reject("layer_types", "\"conv\" or \"full_attention\""),
        };
        types.iter().map(operator).collect::<Result<Vec<_>>>()?
    } else {
        let attention = json.opt_list_of_int("full_attn_idxs", 0..=*LAYERS.end())?;
        let is_attention = |layer| attention.as_ref().is_none_or(|layers| layers.contains(&layer));
        let operator = |layer| if is_attention(layer) { Operator::Attention } else { Operator::Conv };
        (0..layers).map(operator).collect()
    };
    if operators.len() != layers {
        return json.reject("layer_types", &format!("{layers} entries"));
    }
    if !operators.contains(&Operator::Attention) {
        return json.reject("layer_types", "at least one \"full_attention\"");
    }
    Ok(operators)
}
