//! Muse Glimmer: the text backbone of the vision model, sliding attention with a global layer now and then (spec 3), and
//! the Muse assistant, its drafter (spec 6).

mod assistant;
mod config;
mod model;
mod names;

use mlxcel_core::{
    Result,
    checkpoint::Checkpoint,
    family::{DrafterFamily, Target, TargetFamily},
    nn::{Executor, Loader},
};

/// Name of the drafter family.
const ASSISTANT: &str = "muse-assistant";

inventory::submit! {
    TargetFamily {
        name: "muse",
        model_types: &["muse_glimmer", "muse_glimmer_text"],
        required_drafter_family: Some(ASSISTANT),
        supports_batched: true,
        load,
    }
}

inventory::submit! {
    DrafterFamily { name: ASSISTANT, recognises: assistant::is_assistant, load: assistant::load }
}

fn load(family: &TargetFamily, checkpoint: Checkpoint, executor: Executor) -> Result<Box<dyn Target>> {
    let config = config::Config::read(&checkpoint)?;
    let vision = checkpoint.names().filter(|name| names::is_vision(name)).count();
    if vision > 0 {
        tracing::info!("{vision} vision weights are skipped: {} answers to text only", family.name);
    }
    let checkpoint = checkpoint.with_names(|name| names::rename(name, config.tied))?;
    let model = model::Muse::load(family, &config, &Loader::new(&checkpoint, executor))?;
    checkpoint.finish()?;
    Ok(Box::new(model))
}
