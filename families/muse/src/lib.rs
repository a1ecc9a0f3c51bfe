//! Muse Glimmer: the text backbone of the vision model, sliding attention with a global layer now and then (spec 3), and
//! the Muse assistant, its drafter (spec 6).

mod assistant;
mod config;
mod model;

use mlxcel_core::{
    Result,
    checkpoint::Checkpoint,
    family::{DrafterFamily, Target, TargetFamily},
    nn::{Executor, Loader},
    state::StateKind,
};

/// Name of the drafter family.
const ASSISTANT: &str = "muse-assistant";

inventory::submit! {
    TargetFamily {
        name: "muse",
        model_types: &["muse_glimmer", "muse_glimmer_text"],
        required_drafter_family: Some(ASSISTANT),
        supports_batched: true,
        states: &[StateKind::Kv, StateKind::Window],
        load,
    }
}

inventory::submit! {
    DrafterFamily {
        name: ASSISTANT,
        recognises: assistant::is_assistant,
        trained_width: mlxcel_dflash::trained_width,
        load: assistant::load,
    }
}

fn load(family: &TargetFamily, checkpoint: Checkpoint, executor: Executor) -> Result<Box<dyn Target>> {
    let config = config::Config::read(&checkpoint)?;
    // Stored frequencies of the rotation say again what the config says.
    let checkpoint = checkpoint.text_only(|name| name.ends_with("rotary_emb.inv_freq"))?;
    let model = model::Muse::load(family, &config, &Loader::new(&checkpoint, executor))?;
    checkpoint.finish()?;
    Ok(Box::new(model))
}
