//! The fields of `config.json` that both drafters share (spec 4.1, 5.1).

use std::ops::RangeInclusive;

use mlxcel_core::{
    Result, TokenId, Width,
    checkpoint::{Config as Json, DIM, LAYERS, NORM_EPS},
    nn::{Attention, Mask, RopeStyle},
};

/// Rows of a trained block. Zero and one are refused where the pair is bound.
const BLOCK: RangeInclusive<usize> = 1..=1024;

/// Factors and bounds that a config may name.
pub(crate) const POSITIVE: RangeInclusive<f64> = 1e-6..=1e6;

/// Whether a config is a DFlash drafter: published ones call themselves `qwen3`, so the structure decides.
pub(crate) fn is_dflash(json: &Json) -> bool {
    let architectures = json.opt_list_of_str("architectures").ok().flatten().unwrap_or_default();
    let named = architectures.iter().any(|name| name.contains("DFlash"));
    // Assistants may nest their fields alike, and have a family of their own.
    let assistant =
        json.opt_str("model_type").ok().flatten().is_some_and(|name| name.ends_with("_assistant"));
    (named || json.has("dflash_config")) && !is_dspark(json) && !assistant
}

/// Whether a config is a DSpark drafter: it has a Markov head. A rank of 0 says that there is none, unless another field
/// speaks of one: then the rank is at fault, not the family.
pub(crate) fn is_dspark(json: &Json) -> bool {
    let none = json.opt_int("markov_rank", 0..=0).is_ok();
    let marks = ["markov_head_type", "enable_confidence_head", "dspark_bonus_anchor"];
    json.has("markov_rank") && (!none || marks.iter().any(|field| json.has(field)))
}

/// Shape of a drafter's backbone, and what it says of its target.
#[derive(Clone, Debug)]
pub struct Config {
    /// Width of the residual stream, that of the target.
    pub hidden: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Width of the feed-forward.
    pub feed_forward: usize,
    /// Epsilon of all norms.
    pub norm_eps: f32,
    /// Base of the rotation, on all layers.
    pub rope_theta: f32,
    /// Which elements are rotated together.
    pub rope_style: RopeStyle,
    /// Rows of the block that it was trained with; DSpark counts proposals.
    pub block_size: usize,
    /// What the block's rows see, a layer each.
    pub masks: Vec<Mask>,
    /// Id that stands for a token to be proposed.
    pub mask_token: TokenId,
    /// Layers of the target that it reads.
    pub taps: Vec<usize>,
    /// Factor on the target's embedding rows.
    pub embedding_scale: f32,
    /// Layers of the target, where the config says it.
    pub target_layers: Option<usize>,
    /// Ids of the target's vocabulary, where the config says it.
    pub vocab: Option<usize>,
}

/// Base of the rotation of released DFlash and DSpark drafters.
pub(crate) const ROPE_THETA: f64 = 1e7;

impl Config {
    /// Rows of the context that a block sees at most; `None` if some layer sees all of them.
    pub(crate) fn reach(&self) -> Option<usize> {
        self.masks.iter().map(|mask| mask.reach()).try_fold(0, |most, reach| Some(most.max(reach?)))
    }

    /// Reads `config.json`; fields of the drafter's own may lie in `dflash_config`. Absent fields are those of DFlash, but
    /// for the base of the rotation, which is `rope_theta` then.
    pub fn read(json: &Json, rope_theta: f64) -> Result<Self> {
        let hidden = json.dim("hidden_size")?;
        json.only_silu()?;
        let (heads, kv_heads) = json.heads((32, 8))?;
        let head_dim = json.dim_or("head_dim", hidden / heads)?;
        if !Attention::runs(head_dim) {
            return json.reject("head_dim", "a multiple of 8 up to 256");
        }
        let layers = json.opt_int("num_hidden_layers", LAYERS)?.unwrap_or(5);
        let own = json.opt_section("dflash_config")?;
        let nested = own.as_ref().unwrap_or(json);
        let block_size = block_size(json, nested)?;
        let target_layers = match json.opt_int("num_target_layers", LAYERS)? {
            Some(layers) => Some(layers),
            None => nested.opt_int("num_target_layers", LAYERS)?,
        };
        let half_split = json.bool_or("rope_is_neox_style", true)?;
        Ok(Self {
            hidden,
            layers,
            heads,
            kv_heads,
            head_dim,
            feed_forward: json.dim("intermediate_size")?,
            norm_eps: json.opt_float_in("rms_norm_eps", NORM_EPS)?.unwrap_or(1e-6) as f32,
            rope_theta: json.rope_base(rope_theta)? as f32,
            rope_style: if half_split { RopeStyle::HalfSplit } else { RopeStyle::Interleaved },
            block_size,
            masks: masks(json, nested, layers, block_size)?,
            mask_token: TokenId(nested.int("mask_token_id", 0..=*DIM.end())? as u32),
            taps: nested.list_of_int("target_layer_ids", 0..=*LAYERS.end())?,
            embedding_scale: nested.opt_float_in("input_embedding_scale", POSITIVE)?.unwrap_or(1.0) as f32,
            target_layers,
            vocab: json.opt_dim("vocab_size")?,
        })
    }
}

/// Rows of a trained block, where the config says it.
fn block_size(json: &Json, nested: &Json) -> Result<usize> {
    Ok(match json.opt_int("block_size", BLOCK)? {
        Some(rows) => rows,
        None => nested.opt_int("block_size", BLOCK)?.unwrap_or(16),
    })
}

/// The width that a DFlash drafter with this config was trained for: its block.
pub fn trained_width(json: &Json) -> Result<Width> {
    let own = json.opt_section("dflash_config")?;
    Ok(Width::new(block_size(json, own.as_ref().unwrap_or(json))?).unwrap_or(Width::ONE))
}

/// A layer that sees everything is bidirectional unless the config asks for causal blocks; a sliding one is causal
/// unless the config asks for bidirectional ones (spec 4.4: the authors' reading of an absent `is_causal`).
fn masks(json: &Json, nested: &Json, layers: usize, block_size: usize) -> Result<Vec<Mask>> {
    let Some(types) = json.opt_list_of_str("layer_types")? else { return Ok(vec![Mask::Full; layers]) };
    if types.len() != layers {
        return json.reject("layer_types", &format!("{layers} entries"));
    }
    let mut causal = None;
    for (section, field) in [(json, "is_causal"), (nested, "causal"), (nested, "dflash_query_causal")] {
        causal = causal.or(section.opt_bool(field)?);
    }
    let window = json.opt_dim("sliding_window")?;
    let mask = |name: &&str| match (*name, causal, window) {
        ("full_attention", Some(true), _) => Ok(Mask::Causal),
        ("full_attention", _, _) => Ok(Mask::Full),
        ("sliding_attention", _, None) => json.reject("sliding_window", "the window of the sliding layers"),
        ("sliding_attention", _, Some(window)) if window < block_size => {
            let expected = format!("a window of at least block_size ({block_size}) rows");
            json.reject("sliding_window", &expected)
        }
        ("sliding_attention", Some(false), Some(window)) => Ok(Mask::Within(window)),
        ("sliding_attention", _, Some(window)) => Ok(Mask::Window(window)),
        _ => json.reject("layer_types", "\"full_attention\" or \"sliding_attention\""),
    };
    types.iter().map(mask).collect()
}
