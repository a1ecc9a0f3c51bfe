//! Fields of a config that moved, are missing, or disagree with each other or with the file: read right, or refused by name.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

use conformance::{
    Failure, close, drive, load,
    random::{self, Packed, RandomModel, RandomPair, tokens},
};
use mlxcel_core::{
    Width,
    checkpoint::Dtype,
    family::{LogitRows, Target, Want},
    nn::{Executor, Tensor},
};
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;
use mlxcel_qwen as _;
use serde_json::{Value, json};

const VOCAB: usize = 64;

/// The config with fields taken out and others put in.
fn with(config: &Value, without: &[&str], fields: &Value) -> Value {
    let mut config = config.clone();
    let object = config.as_object_mut().unwrap();
    for field in without {
        object.remove(*field);
    }
    object.extend(fields.as_object().unwrap().clone());
    config
}

/// Logits of 48 positions, far enough for the base of a rotation to show; or the refusal.
fn logits(model: &RandomModel, config: Value) -> Result<Vec<f32>, String> {
    let target = load::target(model.open_as(config).unwrap()).map_err(|error| error.to_string())?;
    Ok(logits_of(target.as_ref()))
}

fn logits_of(target: &dyn Target) -> Vec<f32> {
    drive::all_logits(target, &mut target.new_state(Width::ONE), &tokens(5, 48, VOCAB)).unwrap()
}

fn plain() -> RandomModel {
    random::lfm2::stored(Packed::No, true).target
}

#[test]
fn the_base_of_the_rotation_is_the_one_that_the_file_names() {
    let model = plain();
    let rope = |fields: &Value| logits(&model, with(&model.config, &["rope_theta"], fields));
    let million = rope(&json!({"rope_theta": 1_000_000})).unwrap();
    assert_ne!(rope(&json!({"rope_theta": 10_000})).unwrap(), million, "the base shows");
    for fields in [
        json!({"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}),
        json!({"rope_theta": 10_000, "rope_parameters": {"rope_theta": 1e6}}),
        json!({"rope_theta": 1e6, "rope_parameters": {"rope_type": "default"}}),
        json!({"rope_theta": 1e6, "an unknown key": [1, {"a": null}], "rope_scaling": null}),
        // LFM2's own, with a warning.
        json!({}),
    ] {
        assert_eq!(rope(&fields).unwrap(), million, "{fields}");
    }
    let yarn = rope(&json!({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}})).unwrap_err();
    assert_eq!(yarn, "config.json: rope_parameters.rope_type is \"yarn\", expected \"default\"");
    assert!(rope(&json!({"rope_theta": 1e6, "rope_scaling": {"type": "linear"}})).is_err());
}

/// The same inside `text_config`.
#[test]
fn the_base_of_a_wrapped_model_is_found_too() {
    let pairs = random::qwen::pairs();
    let RandomPair { target, .. } =
        pairs.iter().find(|pair| pair.target.config["text_config"].is_object()).unwrap();
    let rope = |fields: Value| {
        let mut config = target.config.clone();
        config["text_config"] = with(&config["text_config"], &["rope_theta", "rope_parameters"], &fields);
        logits(target, config)
    };
    let factor = target.config["text_config"]["rope_parameters"]["partial_rotary_factor"].clone();
    let factor = if factor.is_null() { json!(0.25) } else { factor };
    let section = json!({"partial_rotary_factor": factor, "rope_type": "default", "rope_theta": 1e6});
    let million = rope(json!({"rope_parameters": section})).unwrap();
    let mut small = section.clone();
    small["rope_theta"] = json!(10_000.0);
    assert_ne!(rope(json!({"rope_parameters": small})).unwrap(), million, "the base shows");
    assert_eq!(rope(json!({"rope_theta": 10.0, "rope_parameters": section})).unwrap(), million);
    let mut bare = section.clone();
    bare.as_object_mut().unwrap().remove("rope_theta");
    assert_eq!(rope(json!({"rope_theta": 1e6, "rope_parameters": bare})).unwrap(), million);
    assert!(rope(json!({"rope_parameters": {"rope_type": "yarn"}})).unwrap_err().contains("rope_type"));
}

#[test]
fn the_width_of_the_feed_forward_has_two_names() {
    let model = plain();
    let width = model.config["intermediate_size"].clone();
    let ff =
        |fields: Value| logits(&model, with(&model.config, &["intermediate_size", "block_ff_dim"], &fields));
    let expected = ff(json!({"intermediate_size": width})).unwrap();
    assert_eq!(ff(json!({"block_ff_dim": width})).unwrap(), expected);
    assert_eq!(ff(json!({"block_ff_dim": width, "intermediate_size": 32})).unwrap(), expected);
    let other = ff(json!({"block_ff_dim": 32, "intermediate_size": width})).unwrap_err();
    assert!(other.contains("expected [32, 64]"), "{other}");
    let none = ff(json!({})).unwrap_err();
    assert!(none.contains("block_ff_dim") && none.contains("intermediate_size"), "{none}");
}

/// Whether the embedding is the output matrix, by the config, against what is in the file.
#[test]
fn ties_are_what_the_config_says_and_the_file_allows() {
    let model = plain();
    let free = random::lfm2::stored(Packed::No, false).target;
    let four = random::lfm2::stored(Packed::Affine { bits: 4, group: 32 }, false).target;
    let (dim, config) = (64, &model.config);
    let tie = |tied: bool| with(config, &["tie_embedding"], &json!({"tie_word_embeddings": tied}));
    let expected = logits(&model, tie(true)).unwrap();
    // Absent: LFM2's own, tied.
    assert_eq!(logits(&model, with(config, &["tie_embedding"], &json!({}))).unwrap(), expected);

    let open = model.open().unwrap();
    let table = open.tensor("model.embed_tokens.weight").unwrap();
    let head = |bytes: &[u8]| RandomModel {
        tensors: model.tensors.clone().tensor("lm_head.weight", Dtype::F32, &[VOCAB, dim], bytes),
        ..model.clone()
    };
    let other: Vec<u8> = table.bytes.iter().rev().copied().map(|byte| byte & 0x3f).collect();
    assert_eq!(logits(&head(table.bytes), tie(true)).unwrap(), expected, "a head that is the table again");
    assert_eq!(logits(&head(&other), tie(true)).unwrap(), expected, "a head that is passed over");
    assert_eq!(logits(&head(table.bytes), tie(false)).unwrap(), expected);
    assert_ne!(logits(&head(&other), tie(false)).unwrap(), expected);
    let missing = logits(&model, tie(false)).unwrap_err();
    assert!(missing.contains("tensor lm_head.weight is missing"), "{missing}");
    assert_ne!(logits(&free, free.config.clone()).unwrap(), expected);

    // A dense table with a quantized head, which has bits of its own.
    let packed = four.open().unwrap();
    let part = |name: &str| packed.tensor(&format!("lm_head.{name}")).unwrap();
    let parts = |names: &[&str]| {
        names.iter().fold(model.tensors.clone(), |tensors, name| {
            let part = part(name);
            tensors.tensor(format!("lm_head.{name}"), part.dtype, part.shape, part.bytes)
        })
    };
    let quantized = with(&tie(false), &[], &json!({"quantization": {"bits": 4, "group_size": 32}}));
    let whole = RandomModel { tensors: parts(&["weight", "scales", "biases"]), ..model.clone() };
    let found = logits(&whole, quantized.clone()).unwrap();
    assert!(found.iter().all(|logit| logit.is_finite()) && found != expected);
    let rule = json!({"bits": 8, "group_size": 64, "lm_head": {"bits": 4, "group_size": 32}});
    let ruled = with(&tie(false), &[], &json!({"quantization": rule}));
    assert_eq!(logits(&whole, ruled).unwrap(), found);
    for (there, gone) in
        [(&["weight", "biases"][..], "lm_head.scales"), (&["weight", "scales"], "lm_head.biases")]
    {
        let torn = RandomModel { tensors: parts(there), ..model.clone() };
        let error = logits(&torn, quantized.clone()).unwrap_err();
        assert!(error.contains(&format!("tensor {gone} is missing")), "{error}");
    }
}

/// A drafter borrows table and head: of a quantized, tied table both are one matrix.
#[test]
fn a_quantized_table_is_one_matrix_for_target_and_drafter() {
    let pair = random::lfm2::stored(Packed::Affine { bits: 4, group: 32 }, true).load().unwrap();
    let row: Vec<f32> = (0..64).map(|i| (i as f32 * 0.37).sin()).collect();
    let row = Tensor::from_host(&row, 1, 64, Executor::detect().unwrap()).unwrap();
    let of = |logits: Tensor| logits.to_host().unwrap().into_owned();
    let head = of(pair.target.head().forward(&row).unwrap());
    let table = of(pair.target.embedding().to_linear().unwrap().forward(&row).unwrap());
    assert_eq!(head, table);
    assert!(head.iter().any(|logit| *logit != 0.0));
}

/// Taps are the residual stream after each layer, in the order that the drafter names, the last one before the final norm.
#[test]
fn taps_come_in_the_order_asked_for_and_before_the_final_norm() {
    let model = plain();
    let checkpoint = model.open().unwrap();
    let norm = checkpoint.vector("model.embedding_norm.weight", 64).unwrap();
    let target = load::target(model.open().unwrap()).unwrap();
    let prompt = tokens(5, 9, VOCAB);
    let taps = |taps: &[usize]| -> Result<Vec<f32>, Failure> {
        let mut state = target.new_state(Width::ONE);
        let want = Want { logits: LogitRows::All, taps };
        let output = drive::forward(target.as_ref(), &mut state, &prompt, want)?;
        Ok(output.taps.unwrap().to_host()?.into_owned())
    };
    let single: Vec<_> = (0..4).map(|layer| taps(&[layer]).unwrap()).collect();
    for order in [&[3, 2, 1, 0][..], &[0, 1, 2, 3], &[2, 0, 3], &[3]] {
        let rows = (0..prompt.len()).flat_map(|row| order.iter().map(move |layer| (row, *layer)));
        let expected: Vec<_> =
            rows.flat_map(|(row, layer)| single[layer][row * 64..][..64].to_vec()).collect();
        assert_eq!(taps(order).unwrap(), expected, "{order:?}");
    }
    // The norm and the head on the last tap are the logits.
    let normed: Vec<f32> = single[3]
        .chunks_exact(64)
        .flat_map(|row| {
            let mean = row.iter().map(|x| f64::from(x * x)).sum::<f64>() / 64.0;
            let scale = 1.0 / (mean + 1e-5).sqrt();
            row.iter().zip(&norm).map(move |(x, w)| (f64::from(*x) * scale) as f32 * w).collect::<Vec<_>>()
        })
        .collect();
    let normed = Tensor::from_host(&normed, prompt.len(), 64, Executor::detect().unwrap()).unwrap();
    let logits = target.head().forward(&normed).unwrap().to_host().unwrap().into_owned();
    let mut state = target.new_state(Width::ONE);
    let expected = drive::all_logits(target.as_ref(), &mut state, &prompt).unwrap();
    close("logits of the last tap", &logits, &expected, 1e-3).unwrap();
}

/// Layers that a drafter reads are never guessed.
#[test]
fn taps_are_what_the_drafters_config_names() {
    let pair = random::lfm2::stored(Packed::No, true);
    let target = load::target(pair.target.open().unwrap()).unwrap();
    let refusal = |taps: Option<Value>| {
        let mut config = pair.drafter.config.clone();
        match taps {
            Some(taps) => config["dflash_config"]["target_layer_ids"] = taps,
            None => drop(config["dflash_config"].as_object_mut().unwrap().remove("target_layer_ids")),
        }
        let drafter = load::drafter(pair.drafter.open_as(config).unwrap(), target.as_ref());
        drafter.err().map(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
    };
    let all = [
        ("missing", None),
        ("past the last layer", Some(json!([0, 4]))),
        ("fewer than the file's matrix reads", Some(json!([1]))),
        ("one twice", Some(json!([1, 1]))),
        ("below 0", Some(json!([-1, 1]))),
        ("no list", Some(json!(1))),
    ];
    let all: Vec<_> =
        all.into_iter().map(|(case, taps)| format!("{case}: {}", refusal(taps).unwrap())).collect();
    insta::assert_snapshot!(all.join("\n"));
    for fine in [json!([2, 0]), json!([0, 3]), json!([3, 1])] {
        assert_eq!(refusal(Some(fine.clone())), None, "{fine}");
    }
}
