//! The fields of `config.json` (spec 3.2).

use std::ops::RangeInclusive;

use mlxcel_core::{
    Error, Result, TokenId,
    checkpoint::{Checkpoint, Config as Json, LAYERS},
    family::suppressed,
    nn::Attention,
};

/// Factors, bounds and epsilons: any number an f32 holds above 0.
const POSITIVE: RangeInclusive<f64> = 1e-12..=1e12;

/// Fields that name ids of images, videos and padding: they have logits and are no answer.
const NO_ANSWER: [&str; 3] = ["image_token_id", "video_token_id", "pad_token_id"];

/// What a layer's attention sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The last rows, with rotated positions.
    Window,
    /// All rows, without positions.
    Global,
}

/// Shape of a Muse Glimmer text model. Absent fields are those of the released 30B model.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) vocab: usize,
    pub(crate) hidden: usize,
    pub(crate) feed_forward: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) norm_eps: f32,
    pub(crate) post_norm_eps: f32,
    pub(crate) rope_theta: f32,
    pub(crate) window: usize,
    pub(crate) layers: Vec<Reach>,
    pub(crate) qk_scale: f32,
    pub(crate) output_multiplier: f32,
    pub(crate) softcap: f32,
    pub(crate) tied: bool,
    pub(crate) context: usize,
    pub(crate) suppressed: Vec<TokenId>,
}

impl Config {
    /// Reads the `text_config` of a vision model, or the same fields at the root.
    pub(crate) fn read(checkpoint: &Checkpoint) -> Result<Self> {
        let root = checkpoint.config();
        let text = text_config(root)?;
        refuse_other_forms(&text)?;
        let hidden = text.dim_or("hidden_size", 6656)?;
        let (heads, kv_heads) = text.heads((32, 2))?;
        let head_dim = text.dim_or("head_dim", 128)?;
        if hidden % heads != 0 {
            return text.reject("hidden_size", &format!("a multiple of num_attention_heads ({heads})"));
        }
        if !Attention::runs(head_dim) {
            return text.reject("head_dim", "a multiple of 8 up to 256");
        }
        text.product("num_attention_heads * head_dim * hidden_size", &[heads, head_dim, hidden])?;
        let positive =
            |field, default| Ok::<_, Error>(text.opt_float_in(field, POSITIVE)?.unwrap_or(default) as f32);
        let rope_theta = text.rope_base(500_000.0)?;
        let tied = match root.opt_bool("tie_word_embeddings")? {
            Some(tied) => tied,
            None => text.bool_or("tie_word_embeddings", false)?,
        };
        Ok(Self {
            vocab: text.dim_or("vocab_size", 202_048)?,
            hidden,
            feed_forward: text.dim_or("intermediate_size", 19_968)?,
            heads,
            kv_heads,
            head_dim,
            norm_eps: positive("rms_norm_eps", 1e-5)?,
            post_norm_eps: positive("post_norm_eps", 1e-8)?,
            rope_theta: rope_theta as f32,
            window: text.dim_or("sliding_window", 2048)?,
            layers: layers(&text, rope_theta)?,
            qk_scale: positive("qk_scale_factor", 3.87)?,
            output_multiplier: positive("output_multiplier", 0.196_116_135_138_184_04)?,
            softcap: positive("final_logit_softcapping", 20.0)?,
            tied,
            context: text.dim_or("max_position_embeddings", 131_072)?,
            suppressed: suppressed(checkpoint, &text, &NO_ANSWER)?,
        })
    }
}

/// The section of the text model: the root where its fields lie there.
fn text_config(root: &Json) -> Result<Json> {
    let flattened = root.has("hidden_size") || root.opt_str("model_type")? == Some("muse_glimmer_text");
    match root.opt_section("text_config")? {
        Some(text) => Ok(text),
        None if flattened => Ok(root.clone()),
        None => root.reject("text_config", "the section of the text model"),
    }
}

/// Models of this name that are built otherwise.
fn refuse_other_forms(text: &Json) -> Result<()> {
    if text.opt_bool("attention_bias")? == Some(true) {
        return text.reject("attention_bias", "false");
    }
    Ok(text.only_silu()?)
}

/// `layer_types`, else a global layer wherever the number of layers after it is a multiple of 4. The list of bases only
/// says the same again: 0 or null on global layers, the one base on sliding ones (spec 9, 8).
fn layers(text: &Json, theta: f64) -> Result<Vec<Reach>> {
    let count = text.opt_int("num_hidden_layers", LAYERS)?.unwrap_or(52);
    let layers: Vec<_> = match text.opt_list_of_str("layer_types")? {
        Some(types) => types.iter().map(|name| reach(text, name)).collect::<Result<_>>()?,
        None => (0..count)
            .map(|n| if (count - 1 - n).is_multiple_of(4) { Reach::Global } else { Reach::Window })
            .collect(),
    };
    if layers.len() != count {
        return text.reject("layer_types", &format!("{count} entries"));
    }
    if let Some(bases) = text.opt_list_of_float("layer_rope_theta")? {
        if bases.len() != count {
            return text.reject("layer_rope_theta", &format!("{count} entries"));
        }
        let agrees = |(layer, base): (&Reach, &Option<f64>)| match layer {
            Reach::Global => base.is_none_or(|base| base == 0.0),
            Reach::Window => *base == Some(theta),
        };
        if !layers.iter().zip(&bases).all(agrees) {
            let expected = format!("0 for every full_attention layer and {theta} for every other");
            return text.reject("layer_rope_theta", &expected);
        }
    }
    Ok(layers)
}

fn reach(text: &Json, name: &str) -> Result<Reach> {
    match name {
        "sliding_attention" => Ok(Reach::Window),
        "full_attention" => Ok(Reach::Global),
        _ => text.reject("layer_types", "\"sliding_attention\" or \"full_attention\""),
    }
}
