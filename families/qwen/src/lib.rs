//! Qwen 3.5 dense text targets: gated delta nets with gated attention in between (spec 2).

mod config;
mod model;

use mlxcel_core::{
    Result,
    checkpoint::Checkpoint,
    family::{Target, TargetFamily},
    nn::{Executor, Loader},
    state::StateKind,
};

inventory::submit! {
    TargetFamily {
        name: "qwen",
        model_types: &["qwen3_5", "qwen3_5_text"],
        required_drafter_family: Some("dflash"),
        supports_batched: true,
        states: &[StateKind::Kv, StateKind::Delta],
        load,
    }
}

fn load(family: &TargetFamily, checkpoint: Checkpoint, executor: Executor) -> Result<Box<dyn Target>> {
    let config = config::Config::read(&checkpoint)?;
    // Heads that predict several tokens are drafters of their own, and not built.
    let checkpoint = checkpoint.text_only(|name| name.contains("mtp."))?;
    let model = model::Qwen::load(family, &config, &Loader::new(&checkpoint, executor))?;
    checkpoint.finish()?;
    Ok(Box::new(model))
}
