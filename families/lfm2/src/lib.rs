//! LFM2 and LFM2.5 dense targets: gated short convolutions with grouped-query attention in between (spec 1).

mod config;
mod model;
mod names;

use mlxcel_core::{Result, family::{Target, TargetFamily}, nn::Loader};

inventory::submit! {
    TargetFamily {
        name: "lfm2",
        model_types: &["lfm2"],
        required_drafter_family: Some("dspark"),
        supports_batched: true,
        load,
    }
}

fn load(family: &TargetFamily, loader: &Loader<'_>) -> Result<Box<dyn Target>> {
    let config = config::Config::read(loader.checkpoint().config())?;
    let checkpoint = loader.checkpoint().with_names(names::rename)?;
    let loader = Loader::new(&checkpoint, loader.executor());
    Ok(Box::new(model::Lfm2::load(family, &config, &loader)?))
}
