//! Qwen 3.5 dense text targets: gated delta nets with gated attention in between (spec 2).

mod config;
mod model;
mod names;

use mlxcel_core::{
    Result,
    checkpoint::Checkpoint,
    family::{Target, TargetFamily},
    nn::{Executor, Loader},
};

inventory::submit! {
    TargetFamily {
        name: "qwen",
        model_types: &["qwen3_5", "qwen3_5_text"],
        required_drafter_family: Some("dflash"),
        supports_batched: true,
        load,
    }
}

fn load(family: &TargetFamily, checkpoint: Checkpoint, executor: Executor) -> Result<Box<dyn Target>> {
    let config = config::Config::read(checkpoint.config())?;
    let checkpoint = checkpoint.with_names(|name| names::rename(name, config.tied))?;
    let model = model::Qwen::load(family, &config, &Loader::new(&checkpoint, executor))?;
    checkpoint.finish()?;
    Ok(Box::new(model))
}
