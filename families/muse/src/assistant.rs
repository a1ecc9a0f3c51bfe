//! The Muse assistant (spec 6): a DFlash drafter under names of its own, whose layers all see a window to both sides. It
//! reads the target's raw embedding table and its raw head, without the norm and the transforms that the target puts
//! around them.

use mlxcel_core::{
    Result, Width,
    checkpoint::{Checkpoint, Config as Json, NORM_EPS},
    family::{Bound, Drafter, DrafterFamily},
    nn::{Executor, Mask},
};
use mlxcel_dflash::{Config, DFlash};

/// Whether a config is a Muse assistant.
pub(crate) fn is_assistant(json: &Json) -> bool {
    json.opt_str("model_type").is_ok_and(|name| name == Some("muse_glimmer_assistant"))
}

pub(crate) fn load(
    family: &DrafterFamily,
    checkpoint: Checkpoint,
    executor: Executor,
    bound: &Bound<'_>,
) -> Result<Box<dyn Drafter>> {
    let config = read(checkpoint.config())?;
    let checkpoint = checkpoint.with_names(rename)?;
    // Most of what a wide block proposes is rejected at first: it starts at 4 rows of the 16 it was trained with.
    let start = Width::new(4).unwrap_or(Width::ONE);
    Ok(Box::new(DFlash::load(family, &config, start, &checkpoint, executor, bound)?))
}

/// The shape, which is flat in the released file, or nested as other packagings have it (spec 6.1).
fn read(json: &Json) -> Result<Config> {
    refuse_other_forms(json)?;
    let config = Config::read(json, 500_000.0)?;
    let window = json.dim_or("sliding_window", 2048)?;
    if window < config.block_size {
        let expected = format!("a window of at least block_size ({}) rows", config.block_size);
        return json.reject("sliding_window", &expected);
    }
    Ok(Config {
        norm_eps: json.opt_float_in("rms_norm_eps", NORM_EPS)?.unwrap_or(1e-5) as f32,
        masks: vec![Mask::WithinInclusive(window); config.layers],
        ..config
    })
}

fn refuse_other_forms(json: &Json) -> Result<()> {
    let types = json.opt_list_of_str("layer_types")?.unwrap_or_default();
    if types.iter().any(|name| *name != "sliding_attention") {
        return json.reject("layer_types", "\"sliding_attention\" only");
    }
    if json.opt_bool("attention_bias")? == Some(true) {
        return json.reject("attention_bias", "false");
    }
    Ok(())
}

/// From the assistant's names to those of a DFlash drafter.
#[expect(clippy::unnecessary_wraps, reason = "the shape of a rename rule")]
fn rename(name: &str) -> Option<String> {
    let name = name.strip_prefix("model.").unwrap_or(name);
    Some(match name.strip_prefix("encoder.") {
        Some("output_norm_enc.weight") => "hidden_norm.weight".to_owned(),
        Some(other) => other.to_owned(),
        None => name.to_owned(),
    })
}
