//! LFM2 with its DSpark drafter.

use conformance::random;
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;

conformance::suite!(lfm2 {
    golden: {
        exact: ["lfm2/f32"],
        reference: ["lfm2/bf16", "lfm2/mlx-affine4-mixed"],
        drafters: [("lfm2_dspark/f32", "lfm2/f32", F32), ("lfm2_dspark/bf16", "lfm2/bf16", Bf16)]
    },
    model_types: &["lfm2"],
    random: random::lfm2::pairs,
    misfits: |pair| random::dspark::misfits(&pair.drafter.config),
    trained: Some(["cli/demo/assets/lfm2/target", "cli/demo/assets/lfm2/drafter"]),
});
