//! Muse Glimmer with the Muse assistant.

use conformance::{
    Check, Failure,
    exactness::same_as_classic,
    golden::{self, Golden},
    load, random,
    rounds::{Ask, run},
};
use mlxcel_core::{
    Error, TokenId, Width,
    checkpoint::{Checkpoint, CheckpointError, CheckpointWriter},
    family,
    nn::Executor,
    sampling::{SamplingSettings, Seed, Vocabulary},
    speculative::Models,
};
use mlxcel_muse as _;
use serde_json::{Value, json};

conformance::suite!(muse {
    golden: {
        exact: ["muse_glimmer/f32"],
        reference: [],
        drafters: [("muse_glimmer_assistant/f32", "muse_glimmer/f32", F32)]
    },
    model_types: &["muse_glimmer", "muse_glimmer_text"],
    random: random::muse::pairs,
    misfits: |pair| random::assistant::misfits(&pair.drafter.config),
    trained: None,
});

fn holds(check: impl FnOnce() -> Check) {
    if let Err(failure) = check() {
        panic!("{failure}");
    }
}

/// The bf16 case has the weights of the f32 case, rounded.
#[test]
fn golden_logits_of_rounded_weights() {
    holds(|| {
        let (exact, case) = (Golden::open("muse_glimmer/f32")?, Golden::open("muse_glimmer/bf16")?);
        let weights = exact.checkpoint()?;
        let mut rounded = CheckpointWriter::new().config(case.config()?);
        for name in weights.names().map(str::to_owned).collect::<Vec<_>>() {
            let tensor = weights.tensor(&name)?;
            rounded = rounded.bf16(name.as_str(), tensor.shape, &tensor.to_f32()?);
        }
        let folder = tempfile::tempdir()?;
        rounded.write(folder.path())?;
        let target = load::target(Checkpoint::open(folder.path())?)?;
        golden::within_reference_on(target.as_ref(), &case)
    });
}

/// MLX's own operators in f32 on this device: the second implementation of everything the model is made of.
#[test]
fn golden_on_mlx() {
    holds(|| {
        Executor::detect()?;
        let target_case = Golden::open("muse_glimmer/f32")?;
        let target = family::load_target(target_case.checkpoint()?, Executor::MLX_F32)?;
        golden::exact_on(target.as_ref(), &target_case)?;
        golden::rollback_on(target.as_ref(), &target_case)?;
        let case = Golden::open("muse_glimmer_assistant/f32")?;
        let drafter = family::load_drafter(case.checkpoint()?, target.as_ref(), Executor::MLX_F32)?;
        golden::trace_on(target.as_ref(), drafter.as_ref(), &case, &target_case)
    });
}
