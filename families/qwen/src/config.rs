//! The fields of `config.json` (spec 2.1).

use mlxcel_core::{
    Result, TokenId,
    checkpoint::{Checkpoint, Config as Json, LAYERS, NORM_EPS},
    family::suppressed,
    nn::{Attention, DeltaDims},
};

/// The mixer of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mixer {
    /// Gated delta net.
    Linear,
    /// Gated grouped-query attention.
    Full,
}

/// Shape of a Qwen 3.5 text model.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) vocab: usize,
    pub(crate) hidden: usize,
    pub(crate) feed_forward: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) attention_bias: bool,
    pub(crate) rope_theta: f32,
    pub(crate) rope_dims: usize,
    pub(crate) norm_eps: f32,
    pub(crate) delta: DeltaDims,
    pub(crate) mixers: Vec<Mixer>,
    pub(crate) tied: bool,
    pub(crate) context: usize,
    pub(crate) suppressed: Vec<TokenId>,
}

impl Config {
    /// Reads the root of a text-only checkpoint, or the `text_config` of a wrapped one.
    pub(crate) fn read(checkpoint: &Checkpoint) -> Result<Self> {
        let root = checkpoint.config();
        let wrapped = root.str("model_type")? == "qwen3_5";
        let text = if wrapped { root.section("text_config")? } else { root.clone() };
        refuse_other_forms(&text)?;
        let tied = match root.opt_bool("tie_word_embeddings")? {
            Some(tied) => tied,
            None => text.bool_or("tie_word_embeddings", false)?,
        };
        let (heads, kv_heads) = text.heads((16, 4))?;
        let head_dim = text.dim_or("head_dim", 256)?;
        if !Attention::runs(head_dim) {
            return text.reject("head_dim", "a multiple of 8 up to 256");
        }
        let (rope_theta, rope_dims) = rope(&text, head_dim)?;
        Ok(Self {
            vocab: text.dim_or("vocab_size", 248_320)?,
            hidden: text.dim_or("hidden_size", 4096)?,
            feed_forward: text.dim_or("intermediate_size", 12_288)?,
            heads,
            kv_heads,
            head_dim,
            attention_bias: text.bool_or("attention_bias", false)?,
            rope_theta,
            rope_dims,
            norm_eps: text.opt_float_in("rms_norm_eps", NORM_EPS)?.unwrap_or(1e-6) as f32,
            delta: delta(&text)?,
            mixers: mixers(&text)?,
            tied,
            context: text.dim_or("max_position_embeddings", 32_768)?,
            suppressed: suppressed(checkpoint, &text, &[])?,
        })
    }
}

/// Models of this name that are built otherwise.
fn refuse_other_forms(text: &Json) -> Result<()> {
    let other = |field, expected: &str| text.reject(field, expected);
    match text.opt_str("model_type")? {
        None | Some("qwen3_5_text") => {}
        Some(_) => return other("model_type", "\"qwen3_5_text\": experts are not supported"),
    }
    if text.has("num_experts") && text.opt_int("num_experts", 0..=0).is_err() {
        return other("num_experts", "none: experts are not supported");
    }
    if text.opt_bool("attn_output_gate")? == Some(false) {
        return other("attn_output_gate", "true");
    }
    Ok(text.only_silu()?)
}

/// Base, and rotated elements of a head. For text all three streams of the mrope hold the same position, which is ordinary
/// rotation of the first elements (spec 2.3).
fn rope(text: &Json, head_dim: usize) -> Result<(f32, usize)> {
    let theta = text.rope_base(1e7)?;
    let rope = text.opt_section("rope_parameters")?.unwrap_or_else(|| text.clone());
    let factor = rope.opt_float_in("partial_rotary_factor", 0.0..=1.0)?.unwrap_or(0.25);
    let dims = (head_dim as f64 * factor) as usize;
    if dims == 0 || !dims.is_multiple_of(2) {
        let expected = format!("an even part of head_dim ({head_dim}), and this is {dims} elements");
        return rope.reject("partial_rotary_factor", &expected);
    }
    if let Some(section) = rope.opt_list_of_int("mrope_section", 0..=head_dim)?
        && 2 * section.iter().sum::<usize>() != dims
    {
        let expected = format!("a sum of {}, half of the rotated elements", dims / 2);
        return rope.reject("mrope_section", &expected);
    }
    Ok((theta as f32, dims))
}

fn delta(text: &Json) -> Result<DeltaDims> {
    let dims = DeltaDims {
        key_heads: text.dim_or("linear_num_key_heads", 16)?,
        value_heads: text.dim_or("linear_num_value_heads", 32)?,
        key_dim: text.dim_or("linear_key_head_dim", 128)?,
        value_dim: text.dim_or("linear_value_head_dim", 128)?,
        taps: text.dim_or("linear_conv_kernel_dim", 4)?,
    };
    let check = |runs, field, expected: &str| if runs { Ok(()) } else { text.reject(field, expected) };
    let per_key_head = format!("a multiple of linear_num_key_heads ({})", dims.key_heads);
    check(dims.heads_run(), "linear_num_value_heads", &per_key_head)?;
    check(DeltaDims::key_runs(dims.key_dim), "linear_key_head_dim", "an even number up to 1024")?;
    check(DeltaDims::value_runs(dims.value_dim), "linear_value_head_dim", "a multiple of 16 up to 1024")?;
    check(DeltaDims::taps_run(dims.taps), "linear_conv_kernel_dim", "2 to 8 taps")?;
    Ok(dims)
}

/// `layer_types`; where `full_attention_interval` is there too, both must say the same, since MLX's own loaders read only
/// the latter (spec 9, 4).
fn mixers(text: &Json) -> Result<Vec<Mixer>> {
    let layers = text.opt_int("num_hidden_layers", LAYERS)?.unwrap_or(32);
    let interval = text.opt_int("full_attention_interval", LAYERS)?;
    let by_interval: Vec<_> = (1..=layers)
        .map(|n| if n % interval.unwrap_or(4) == 0 { Mixer::Full } else { Mixer::Linear })
        .collect();
    let Some(types) = text.opt_list_of_str("layer_types")? else { return Ok(by_interval) };
    let mixer = |name: &&str| match *name {
        "linear_attention" => Ok(Mixer::Linear),
        "full_attention" => Ok(Mixer::Full),
        _ => text.reject("layer_types", "\"linear_attention\" or \"full_attention\""),
    };
    let mixers = types.iter().map(mixer).collect::<Result<Vec<_>>>()?;
    if mixers.len() != layers {
        return text.reject("layer_types", &format!("{layers} entries"));
    }
    if !mixers.contains(&Mixer::Linear) {
        return text.reject("layer_types", "at least one \"linear_attention\"");
    }
    match interval {
        Some(interval) if mixers != by_interval => {
            let expected = format!("the pattern of layer_types, which is not every {interval}th layer");
            text.reject("full_attention_interval", &expected)
        }
        _ => Ok(mixers),
    }
}
