//! LFM2 with its DSpark drafter.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

use conformance::{load, random};
use mlxcel_core::{Error, checkpoint::CheckpointError};
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;

conformance::suite!(lfm2 {
    golden: {
        exact: ["lfm2/f32"],
        reference: ["lfm2/bf16", "lfm2/mlx-affine4-mixed", "lfm2/mlx-mxfp4"],
        drafters: [("lfm2_dspark/f32", "lfm2/f32", F32), ("lfm2_dspark/bf16", "lfm2/bf16", Bf16)]
    },
    model_types: &["lfm2"],
    random: conformance::random::lfm2::pairs,
    misfits: |pair| conformance::random::dspark::misfits(&pair.drafter.config),
    trained: Some(conformance::trained::LFM2),
});

/// Numbers that the operators cannot run are refused by name, before a kernel could panic on them.
#[test]
fn odd_numbers_in_a_config_are_refused() {
    let pair = &random::lfm2::pairs()[0];
    let target = load::target(pair.target.open().unwrap()).unwrap();
    let refused = |result: Result<(), Error>, field: &str| match result {
        Err(Error::Checkpoint(CheckpointError::Field { .. })) => {
            let message = result.unwrap_err().to_string();
            assert!(message.contains(field), "{message}");
        }
        other => panic!("{field}: {other:?}"),
    };
    let with = |field: &str, value: i64| {
        let mut config = pair.target.config.clone();
        config[field] = value.into();
        load::target(pair.target.open_as(config).unwrap()).map(drop)
    };
    for (field, value) in [
        ("hidden_size", 0),
        ("hidden_size", -1),
        ("hidden_size", 33),
        ("hidden_size", 48),
        ("hidden_size", 4_000_000_000),
        ("num_attention_heads", 3),
        ("num_attention_heads", 0),
        ("num_key_value_heads", 3),
        ("num_hidden_layers", 1_000_000_000),
        ("vocab_size", -1),
        ("conv_L_cache", 1),
        ("conv_L_cache", 9),
        ("max_position_embeddings", 0),
        ("rope_theta", 0),
        ("rope_theta", -1),
        ("norm_eps", -1),
    ] {
        let named = if (field, value) == ("num_key_value_heads", 3) { "num_attention_heads" } else { field };
        refused(with(field, value), named);
    }
    for (field, value) in [
        ("head_dim", 20),
        ("rope_theta", 0),
        ("rms_norm_eps", -1),
        ("block_size", 0),
        ("block_size", 1 << 24),
    ] {
        let mut config = pair.drafter.config.clone();
        config[field] = value.into();
        let drafter = load::drafter(pair.drafter.open_as(config).unwrap(), target.as_ref()).map(drop);
        refused(drafter, field);
    }
}
