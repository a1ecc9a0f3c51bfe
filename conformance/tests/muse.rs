//! Muse Glimmer with the Muse assistant.

#![expect(clippy::unwrap_used, reason = "a test says so by failing")]

use std::sync::Arc;

use conformance::{
    Check,
    exactness::same_run,
    golden::{self, Golden},
    load, random,
    rounds::{Ask, run},
};
use mlxcel_core::{
    Error, Position, Result, TokenId, Width,
    checkpoint::{Checkpoint, CheckpointError, CheckpointWriter},
    exactness::Gate,
    family::{self, Draft, Drafter, DrafterContext, Observe, Pick},
    nn::{Executor, Tensor},
    sampling::{SamplingSettings, Seed, Vocabulary},
    speculative::Models,
};
use mlxcel_muse as _;
use serde_json::{Value, json};

conformance::suite!(muse {
    golden: {
        exact: ["muse_glimmer/f32"],
        reference: ["muse_glimmer/bf16", "muse_glimmer/mlx-affine8", "muse_glimmer/mlx-nvfp4"],
        drafters: [
            ("muse_glimmer_assistant/f32", "muse_glimmer/f32", F32),
            ("muse_glimmer_assistant/bf16", "muse_glimmer/bf16", Bf16)
        ]
    },
    model_types: &["muse_glimmer", "muse_glimmer_text"],
    random: conformance::random::muse::pairs,
    misfits: |pair| conformance::random::assistant::misfits(&pair.drafter.config),
    trained: Some(conformance::trained::MUSE_GLIMMER),
});

fn holds(check: impl FnOnce() -> Check) {
    if let Err(failure) = check() {
        panic!("{failure}");
    }
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

/// Released, converted and text-only; tied and untied; dense and quantized; flat and nested drafters.
#[test]
fn every_layout_loads() {
    for pair in random::muse::pairs() {
        let loaded = pair.load().unwrap_or_else(|failure| panic!("{}: {failure}", pair.name));
        let spec = loaded.drafter.spec();
        assert_eq!((spec.trained_width.rows(), spec.default_width.rows()), (8, 4), "{}", pair.name);
    }
}

/// Ids of images, videos and padding have logits and are never emitted, whatever a drafter proposes; one that also ends
/// answers is.
#[test]
fn suppressed_ids_are_never_emitted() {
    holds(|| {
        let pair = &random::muse::pairs()[0];
        let loaded = pair.load()?;
        let free = Ask::greedy(&random::tokens(5, 9, 64), 40);
        let answer = run(loaded.models(), &free, None)?.tokens();
        let mut wished: Vec<_> = answer.iter().map(|token| token.0).collect();
        wished.sort_unstable();
        wished.dedup();
        assert!(wished.len() > 6, "fixture: {wished:?}");
        let mut config = pair.target.config.clone();
        config["image_token_id"] = wished[0].into();
        config["video_token_id"] = wished[1].into();
        config["text_config"]["pad_token_id"] = wished[2].into();
        config["text_config"]["eos_token_id"] = json!([wished[3]]);
        let generation = json!({ "suppress_tokens": [wished[3], wished[4]] }).to_string();
        let folder = tempfile::tempdir()?;
        let tensors = pair.target.tensors.clone().config(config);
        tensors.file("generation_config.json", generation).write(folder.path())?;

        let target = load::target(Checkpoint::open(folder.path())?)?;
        let expected: Vec<_> = [0, 1, 2, 4].map(|i| TokenId(wished[i])).to_vec();
        assert_eq!(target.spec().suppressed, expected);
        let drafter = load::drafter(pair.drafter.open()?, target.as_ref())?;
        let vocabulary = Arc::new(Vocabulary::new(64, |_| true, &target.spec().suppressed));
        let models = Models {
            target: target.as_ref(),
            drafter: Some(drafter.as_ref()),
            vocabulary: &vocabulary,
            gate: Gate::unguarded(),
        };
        let sampling =
            SamplingSettings { temperature: 1.5, seed: Some(Seed(7)), ..SamplingSettings::default() };
        for ask in [free.clone(), Ask { sampling, ..free }] {
            let classic = run(models, &ask, None)?;
            assert!(classic.tokens().iter().all(|token| !expected.contains(token)));
            for rows in [2, 4, 8] {
                same_run(&run(models, &ask, Width::new(rows))?, &classic)?;
            }
        }
        Ok(())
    });
}

/// Remembers the logits; always picks the same.
#[derive(Default)]
struct Seen(Vec<f32>);

impl Pick for Seen {
    fn pick(&mut self, logits: &[f32]) -> Result<TokenId> {
        self.0.extend_from_slice(logits);
        Ok(TokenId(0))
    }
}

const ROWS: usize = 60;

/// A context of [`ROWS`] rows of random taps, observed in pieces of `piece`; rows before `changed` are other ones.
fn observed(drafter: &dyn Drafter, piece: usize, changed: usize) -> DrafterContext {
    let width = drafter.spec().taps.len() * drafter.spec().hidden;
    let (mut numbers, mut other) = (random::Numbers::new(1), random::Numbers::new(2));
    let mut value = |i| {
        let (a, b) = (numbers.unit(), other.unit());
        if i / width < changed { b } else { a }
    };
    let taps: Vec<f32> = (0..ROWS * width).map(&mut value).collect();
    let mut context = drafter.new_context();
    for (i, rows) in taps.chunks(piece * width).enumerate() {
        let executor = Executor::detect().unwrap();
        let taps = Tensor::from_host(rows, rows.len() / width, width, executor).unwrap();
        let start = Position(i * piece);
        drafter.observe(&mut [Observe { context: &mut context, taps: &taps, start }]).unwrap();
    }
    context
}

fn logits(drafter: &dyn Drafter, context: &mut DrafterContext) -> Vec<f32> {
    let mut seen = Seen::default();
    let job = Draft {
        context,
        anchor: TokenId(3),
        position: Position(ROWS),
        count: 7,
        pick: &mut seen,
        confidence: None,
    };
    drafter.propose(&mut [job]).unwrap();
    seen.0
}

/// Rows past the window are not encoded; the rest is the same in whatever pieces it came, single rows into a full window
/// included, and the window's end is where the config says, itself included.
#[test]
fn only_the_window_is_observed() {
    for pair in &random::muse::pairs()[..2] {
        let window = pair.drafter.config["sliding_window"].as_u64().unwrap() as usize;
        let drafter = pair.load().unwrap().drafter;
        let expected = logits(drafter.as_ref(), &mut observed(drafter.as_ref(), ROWS, 0));
        for piece in [1, 3, 17, 59] {
            let mut context = observed(drafter.as_ref(), piece, 0);
            assert_eq!(logits(drafter.as_ref(), &mut context), expected, "{}: pieces of {piece}", pair.name);
        }
        let changed = |rows| logits(drafter.as_ref(), &mut observed(drafter.as_ref(), 1, rows));
        assert_eq!(changed(ROWS - window), expected, "{}: a row too many", pair.name);
        assert_ne!(changed(ROWS - window + 1), expected, "{}: a row is missing", pair.name);
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
    let pair = &random::muse::pairs()[0];
    let cases: [(&str, &str, Change); 30] = [
        ("layer_types", "4 entries", |c| c["layer_types"] = json!(["full_attention"])),
        ("layer_types", "\"sliding_attention\" or", |c| c["layer_types"][1] = json!("linear_attention")),
        ("layer_rope_theta", "4 entries", |c| c["layer_rope_theta"] = json!([0.0])),
        ("layer_rope_theta", "every full_attention layer", |c| c["layer_rope_theta"][2] = json!(10000.0)),
        ("layer_rope_theta", "10000 for every other", |c| c["layer_rope_theta"][0] = json!(0)),
        ("layer_rope_theta", "10000 for every other", |c| c["layer_rope_theta"][3] = json!(500_000)),
        ("rope_type", "default", |c| c["rope_parameters"]["rope_type"] = json!("yarn")),
        ("rope_theta", "1.0..=", |c| c["rope_parameters"]["rope_theta"] = json!(0)),
        ("attention_bias", "false", |c| c["attention_bias"] = json!(true)),
        ("hidden_activation", "silu", |c| c["hidden_activation"] = json!("gelu")),
        ("num_attention_heads", "multiple", |c| c["num_attention_heads"] = json!(3)),
        ("hidden_size", "multiple of num_attention_heads", |c| c["hidden_size"] = json!(30)),
        ("head_dim", "multiple of 8", |c| c["head_dim"] = json!(20)),
        ("head_dim", "up to 256", |c| c["head_dim"] = json!(512)),
        ("final_logit_softcapping", "a number in", |c| c["final_logit_softcapping"] = json!(0)),
        ("final_logit_softcapping", "a number in", |c| c["final_logit_softcapping"] = json!(-20)),
        ("output_multiplier", "a number in", |c| c["output_multiplier"] = json!("0.5")),
        ("qk_scale_factor", "a number in", |c| c["qk_scale_factor"] = json!(0)),
        ("post_norm_eps", "a number in", |c| c["post_norm_eps"] = json!(-1e-8)),
        ("sliding_window", "1..=", |c| c["sliding_window"] = json!(0)),
        ("sliding_window", "1..=", |c| c["sliding_window"] = json!(3_000_000_000_u64)),
        ("vocab_size", "1..=", |c| c["vocab_size"] = json!(3_000_000_000_u64)),
        ("hidden_size", "1..=", |c| c["hidden_size"] = json!(3_000_000_000_u64)),
        ("intermediate_size", "1..=", |c| c["intermediate_size"] = json!(3_000_000_000_u64)),
        ("num_hidden_layers", "1..=1024", |c| c["num_hidden_layers"] = json!(3_000_000_000_u64)),
        ("num_attention_heads", "1..=", |c| c["num_attention_heads"] = json!(3_000_000_000_u64)),
        ("num_key_value_heads", "1..=", |c| c["num_key_value_heads"] = json!(3_000_000_000_u64)),
        ("head_dim", "1..=", |c| c["head_dim"] = json!(3_000_000_000_u64)),
        ("max_position_embeddings", "1..=", |c| c["max_position_embeddings"] = json!(3_000_000_000_u64)),
        ("num_attention_heads * head_dim", "a product of at most", |c| {
            (c["num_attention_heads"], c["hidden_size"]) = (json!(1 << 20), json!(1 << 20));
        }),
    ];
    for (field, expected, change) in cases {
        let mut config = pair.target.config.clone();
        change(&mut config["text_config"]);
        let message = refusal(load_target(pair.target.open_as(config).unwrap()), field);
        assert!(message.contains(field) && message.contains(expected), "{field}, {expected}: {message}");
    }
}

#[test]
fn a_vision_model_without_text_is_refused() {
    let pair = &random::muse::pairs()[0];
    let mut config = pair.target.config.clone();
    config["text_config"] = Value::Null;
    let message = refusal(load_target(pair.target.open_as(config).unwrap()), "text_config");
    assert!(message.contains("text_config is missing"), "{message}");
}

/// One missing scale in a checkpoint of mixed quantization, and a tensor that no layer takes.
#[test]
fn tensors_that_do_not_fit_are_refused() {
    let quantized = &random::muse::pairs()[2].target;
    let checkpoint = quantized.open().unwrap();
    let lost = "language_model.model.layers.1.self_attn.gate_proj.scales";
    let mut tensors = CheckpointWriter::new();
    for name in checkpoint.names().filter(|name| *name != lost) {
        let tensor = checkpoint.tensor(name).unwrap();
        tensors = tensors.tensor(name, tensor.dtype, tensor.shape, tensor.bytes);
    }
    let mut mixed = quantized.clone();
    mixed.tensors = tensors;
    mixed.config["quantization"]["language_model.model.layers.1.self_attn.gate_proj"] =
        json!({ "bits": 4, "group_size": 32 });
    let message = refusal(load_target(mixed.open().unwrap()), lost);
    assert!(message.contains("model.layers.1.self_attn.gate_proj"), "{message}");

    let mut extra = random::muse::pairs()[0].target.clone();
    extra.tensors = extra.tensors.f32("model.language_model.layers.0.self_attn.q_norm.weight", &[1], &[0.0]);
    match load_target(extra.open().unwrap()) {
        Err(Error::Checkpoint(CheckpointError::UnusedTensors { count: 1, first })) => {
            assert_eq!(first, ["model.layers.0.self_attn.q_norm.weight"]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn odd_drafter_configs_are_refused() {
    let pair = &random::muse::pairs()[0];
    let target = load::target(pair.target.open().unwrap()).unwrap();
    let cases: [(&str, &str, Change); 22] = [
        ("layer_types", "\"sliding_attention\" only", |c| c["layer_types"][1] = json!("full_attention")),
        ("layer_types", "2 entries", |c| c["layer_types"] = json!(["sliding_attention"])),
        ("sliding_window", "at least block_size (8)", |c| c["sliding_window"] = json!(7)),
        ("attention_bias", "false", |c| c["attention_bias"] = json!(true)),
        ("hidden_act", "silu", |c| c["hidden_act"] = json!("gelu")),
        ("rope_type", "default", |c| c["rope_parameters"]["rope_type"] = json!("yarn")),
        ("num_attention_heads", "multiple", |c| {
            (c["num_attention_heads"], c["num_key_value_heads"]) = (json!(3), json!(2));
        }),
        ("head_dim", "multiple of 8", |c| c["head_dim"] = json!(20)),
        ("mask_token_id", "missing", |c| c["mask_token_id"] = Value::Null),
        ("target_layer_ids", "missing", |c| c["target_layer_ids"] = Value::Null),
        ("hidden_size", "1..=", |c| c["hidden_size"] = json!(3_000_000_000_u64)),
        ("intermediate_size", "1..=", |c| c["intermediate_size"] = json!(3_000_000_000_u64)),
        ("num_hidden_layers", "1..=", |c| c["num_hidden_layers"] = json!(3_000_000_000_u64)),
        ("num_attention_heads", "1..=", |c| c["num_attention_heads"] = json!(3_000_000_000_u64)),
        ("num_key_value_heads", "1..=", |c| c["num_key_value_heads"] = json!(3_000_000_000_u64)),
        ("head_dim", "1..=", |c| c["head_dim"] = json!(3_000_000_000_u64)),
        ("sliding_window", "1..=", |c| c["sliding_window"] = json!(3_000_000_000_u64)),
        ("block_size", "1..=", |c| c["block_size"] = json!(3_000_000_000_u64)),
        ("mask_token_id", "0..=", |c| c["mask_token_id"] = json!(3_000_000_000_u64)),
        ("target_layer_ids[0]", "0..=", |c| c["target_layer_ids"][0] = json!(3_000_000_000_u64)),
        ("num_target_layers", "1..=", |c| c["num_target_layers"] = json!(3_000_000_000_u64)),
        ("vocab_size", "1..=", |c| c["vocab_size"] = json!(3_000_000_000_u64)),
    ];
    for (field, expected, change) in cases {
        let mut config = pair.drafter.config.clone();
        change(&mut config);
        let opened = pair.drafter.open_as(config).unwrap();
        let message = refusal(load::drafter(opened, target.as_ref()).map(drop), field);
        assert!(message.contains(field) && message.contains(expected), "{field}, {expected}: {message}");
    }
}
