//! The family of docs/adding-a-family.md: a plain decoder, as small as a family can be. It is linked by tests only.

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
        name: "my-family",
        model_types: &["my_model"],
        required_drafter_family: Some("dflash"),
        supports_batched: false,
        states: &[StateKind::Kv],
        load,
    }
}

fn load(family: &TargetFamily, checkpoint: Checkpoint, executor: Executor) -> Result<Box<dyn Target>> {
    let config = config::Config::read(&checkpoint)?;
    let checkpoint = checkpoint.text_only(|_| false)?;
    let model = model::MyModel::load(family, &config, &Loader::new(&checkpoint, executor))?;
    checkpoint.finish()?;
    Ok(Box::new(model))
}
