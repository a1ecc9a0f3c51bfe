//! Qwen 3.5 with its DFlash drafter.

use conformance::{
    Check,
    golden::{self, Golden},
    load, random,
};
use mlxcel_core::{
    Error,
    checkpoint::{Checkpoint, CheckpointError},
    family::{self, RegistryError},
    nn::Executor,
};
use mlxcel_dflash as _;
use mlxcel_qwen as _;
use serde_json::{Value, json};

conformance::suite!(qwen {
    golden: {
        exact: ["qwen3_5/f32"],
        reference: ["qwen3_5/bf16", "qwen3_5/mlx-affine4-g32", "qwen3_5/mlx-mxfp8"],
        drafters: [
            ("qwen3_5_dflash/full/f32", "qwen3_5/f32", F32),
            ("qwen3_5_dflash/sliding/f32", "qwen3_5/f32", F32),
            ("qwen3_5_dflash/full/bf16", "qwen3_5/bf16", Bf16),
            ("qwen3_5_dflash/sliding/bf16", "qwen3_5/bf16", Bf16)
        ]
    },
    model_types: &["qwen3_5", "qwen3_5_text"],
    random: conformance::random::qwen::pairs,
    misfits: |pair| conformance::random::dflash::misfits(&pair.drafter.config),
    trained: Some(conformance::trained::QWEN3_5),
});

/// MLX's own operators in f32 on this device: the second implementation of everything the model is made of.
#[test]
fn golden_on_mlx() {
    let holds = || -> Check {
        Executor::detect()?;
        let target_case = Golden::open("qwen3_5/f32")?;
        let target = family::load_target(target_case.checkpoint()?, Executor::MLX_F32)?;
        golden::exact_on(target.as_ref(), &target_case)?;
        golden::rollback_on(target.as_ref(), &target_case)?;
        for name in ["qwen3_5_dflash/full/f32", "qwen3_5_dflash/sliding/f32"] {
            let case = Golden::open(name)?;
            let drafter = family::load_drafter(case.checkpoint()?, target.as_ref(), Executor::MLX_F32)?;
            golden::trace_on(target.as_ref(), drafter.as_ref(), &case, &target_case)?;
        }
        Ok(())
    };
    if let Err(failure) = holds() {
        panic!("{failure}");
    }
}

/// HF and converted, wrapped and text-only, tied and untied, dense and quantized.
#[test]
fn every_other_layout_loads() {
    for pair in random::qwen::pairs() {
        pair.load().unwrap_or_else(|failure| panic!("{}: {failure}", pair.name));
    }
}

type Change = fn(&mut Value);

fn refusal(result: Result<(), Error>, place: &str) -> String {
    match result {
        Err(Error::Checkpoint(error)) => error.to_string(),
        other => panic!("{place}: expected a refusal, got {other:?}"),
    }
}

fn load_target(checkpoint: Checkpoint) -> Result<(), Error> {
    load::target(checkpoint).map(drop)
}

/// Numbers and forms that the operators cannot run are refused by name, before a kernel could panic on them.
#[test]
fn odd_target_configs_are_refused() {
    let pair = &random::qwen::pairs()[0];
    let cases: [(&str, &str, Change); 31] = [
        ("layer_types", "4 entries", |c| c["layer_types"] = json!(["linear_attention"])),
        ("layer_types", "at least one", |c| c["layer_types"] = json!(vec!["full_attention"; 4])),
        ("layer_types", "\"linear_attention\" or", |c| c["layer_types"][1] = json!("sliding_attention")),
        ("full_attention_interval", "pattern", |c| c["full_attention_interval"] = json!(4)),
        ("full_attention_interval", "1..=1024", |c| c["full_attention_interval"] = json!(0)),
        ("attn_output_gate", "true", |c| c["attn_output_gate"] = json!(false)),
        ("hidden_act", "silu", |c| c["hidden_act"] = json!("gelu")),
        ("num_experts", "experts", |c| c["num_experts"] = json!(256)),
        ("num_attention_heads", "multiple", |c| c["num_attention_heads"] = json!(3)),
        ("num_attention_heads", "1..=", |c| c["num_attention_heads"] = json!(0)),
        ("num_key_value_heads", "1..=", |c| c["num_key_value_heads"] = json!(3_000_000_000_u64)),
        ("head_dim", "multiple of 8", |c| c["head_dim"] = json!(20)),
        ("head_dim", "up to 256", |c| c["head_dim"] = json!(512)),
        ("hidden_size", "1..=", |c| c["hidden_size"] = json!(3_000_000_000_u64)),
        ("intermediate_size", "1..=", |c| c["intermediate_size"] = json!(-1)),
        ("vocab_size", "1..=", |c| c["vocab_size"] = json!(3_000_000_000_u64)),
        ("num_hidden_layers", "1..=1024", |c| c["num_hidden_layers"] = json!(3_000_000_000_u64)),
        ("max_position_embeddings", "1..=", |c| c["max_position_embeddings"] = json!(0)),
        ("linear_num_key_heads", "1..=", |c| c["linear_num_key_heads"] = json!(3_000_000_000_u64)),
        ("linear_num_value_heads", "multiple", |c| c["linear_num_value_heads"] = json!(3)),
        ("linear_key_head_dim", "even", |c| c["linear_key_head_dim"] = json!(15)),
        ("linear_value_head_dim", "multiple of 16", |c| c["linear_value_head_dim"] = json!(24)),
        ("linear_value_head_dim", "1024", |c| c["linear_value_head_dim"] = json!(4096)),
        ("linear_conv_kernel_dim", "2 to 8", |c| c["linear_conv_kernel_dim"] = json!(1)),
        ("linear_conv_kernel_dim", "2 to 8", |c| c["linear_conv_kernel_dim"] = json!(9)),
        ("rope_type", "default", |c| c["rope_parameters"]["rope_type"] = json!("yarn")),
        ("rope_theta", "1.0..=", |c| c["rope_parameters"]["rope_theta"] = json!(0)),
        ("partial_rotary_factor", "even", |c| c["rope_parameters"]["partial_rotary_factor"] = json!(0.2)),
        ("partial_rotary_factor", "0.0..=1.0", |c| c["rope_parameters"]["partial_rotary_factor"] = json!(2)),
        ("mrope_section", "a sum of 4", |c| c["rope_parameters"]["mrope_section"] = json!([11, 11, 10])),
        ("linear_attn.conv1d.weight", "[128, 1, 5]", |c| c["linear_conv_kernel_dim"] = json!(5)),
    ];
    for (field, expected, change) in cases {
        let mut config = pair.target.config.clone();
        change(&mut config);
        let message = refusal(load_target(pair.target.open_as(config).unwrap()), field);
        assert!(message.contains(field) && message.contains(expected), "{field}, {expected}: {message}");
    }
}

#[test]
fn a_wrapper_without_text_or_with_experts_is_refused() {
    let pair = &random::qwen::pairs()[1];
    let mut config = pair.target.config.clone();
    config["text_config"] = Value::Null;
    let message = refusal(load_target(pair.target.open_as(config).unwrap()), "text_config");
    assert!(message.contains("text_config is missing"), "{message}");

    let mut config = pair.target.config.clone();
    config["text_config"]["model_type"] = json!("qwen3_5_moe_text");
    let message = refusal(load_target(pair.target.open_as(config).unwrap()), "text_config.model_type");
    assert!(message.contains("text_config.model_type") && message.contains("experts"), "{message}");

    let config = json!({ "model_type": "qwen3_5_moe" });
    match load_target(pair.target.open_as(config).unwrap()) {
        Err(Error::Registry(RegistryError::UnknownModelType { found, .. })) => {
            assert_eq!(found, r#""qwen3_5_moe""#);
        }
        other => panic!("{other:?}"),
    }
}

/// A config that asks for tensors which the file stores otherwise, and a tensor that no layer takes.
#[test]
fn tensors_that_do_not_fit_are_refused() {
    let pairs = random::qwen::pairs();
    let quantized = &pairs[3].target;
    let mut config = quantized.config.clone();
    config["quantization"]["model.layers.0.linear_attn.in_proj_a"] = json!(false);
    match load::target(quantized.open_as(config).unwrap()).map(drop) {
        Err(Error::Checkpoint(CheckpointError::Tensor { tensor, .. })) => {
            assert_eq!(tensor, "model.layers.0.linear_attn.in_proj_a.weight");
        }
        other => panic!("{other:?}"),
    }

    let mut extra = pairs[0].target.clone();
    extra.tensors = extra.tensors.f32("model.layers.0.linear_attn.in_proj_qkvz.weight", &[1], &[0.0]);
    match load::target(extra.open().unwrap()).map(drop) {
        Err(Error::Checkpoint(CheckpointError::UnusedTensors { count: 1, first })) => {
            assert_eq!(first, ["model.layers.0.linear_attn.in_proj_qkvz.weight"]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn odd_drafter_configs_are_refused() {
    let pair = &random::qwen::pairs()[1];
    let target = load::target(pair.target.open().unwrap()).unwrap();
    let cases: [(&str, &str, Change); 11] = [
        ("layer_types", "3 entries", |c| c["layer_types"] = json!(["full_attention"])),
        ("layer_types", "\"sliding_attention\"", |c| c["layer_types"][0] = json!("linear_attention")),
        ("sliding_window", "missing", |c| c["sliding_window"] = Value::Null),
        ("sliding_window", "at least block_size (8)", |c| c["sliding_window"] = json!(7)),
        ("sliding_window", "1..=", |c| c["sliding_window"] = json!(3_000_000_000_u64)),
        ("num_key_value_heads", "1..=", |c| c["num_key_value_heads"] = json!(3_000_000_000_u64)),
        ("dflash_config.input_embedding_scale", "a number", |c| {
            c["dflash_config"]["input_embedding_scale"] = json!(0);
        }),
        ("dflash_config.output_multiplier", "a number", |c| {
            c["dflash_config"]["output_multiplier"] = json!("x");
        }),
        ("dflash_config.final_logit_softcapping", "a number", |c| {
            c["dflash_config"]["final_logit_softcapping"] = json!(-1);
        }),
        ("architectures", "DFlash 2", |c| c["architectures"] = json!(["DFlash2DraftModel"])),
        ("selector_rank", "DFlash 2", |c| c["selector_rank"] = json!(64)),
    ];
    for (field, expected, change) in cases {
        let mut config = pair.drafter.config.clone();
        change(&mut config);
        let opened = pair.drafter.open_as(config).unwrap();
        let message = refusal(load::drafter(opened, target.as_ref()).map(drop), field);
        assert!(message.contains(field) && message.contains(expected), "{field}, {expected}: {message}");
    }
}
