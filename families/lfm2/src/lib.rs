//! LFM2 and LFM2.5 dense targets: gated short convolutions with grouped-query attention in between (spec 1).

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
        name: "lfm2",
        model_types: &["lfm2"],
        required_drafter_family: Some("dspark"),
        supports_batched: true,
        states: &[StateKind::Kv, StateKind::Conv],
        load,
    }
}

fn load(family: &TargetFamily, checkpoint: Checkpoint, executor: Executor) -> Result<Box<dyn Target>> {
    let config = config::Config::read(&checkpoint)?;
    let checkpoint = checkpoint.text_only(|_| false)?;
    let model = model::Lfm2::load(family, &config, &Loader::new(&checkpoint, executor))?;
    checkpoint.finish()?;
    Ok(Box::new(model))
}
