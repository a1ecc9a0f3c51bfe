//! LFM2 and LFM2.5 dense targets: gated short convolutions with grouped-query attention in between (spec 1).

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
        name: "lfm2",
        model_types: &["lfm2"],
        required_drafter_family: Some("dspark"),
        supports_batched: true,
        load,
    }
}

fn load(family: &TargetFamily, checkpoint: Checkpoint, executor: Executor) -> Result<Box<dyn Target>> {
    let config = config::Config::read(checkpoint.config())?;
    let checkpoint = checkpoint.with_names(names::rename)?;
    let model = model::Lfm2::load(family, &config, &Loader::new(&checkpoint, executor))?;
    checkpoint.finish()?;
    Ok(Box::new(model))
}
