//! Every way in which weights are stored: the same model however its files are cut, near the dense model of the same
//! numbers, and speculation changes nothing.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

use std::{fs, path::Path};

use conformance::{
    argmax, drive,
    exactness::{block_equals_chain, same_as_classic, settings},
    load, mean_abs,
    random::{self, Packed, RandomModel, RandomPair, tokens},
    rounds::Ask,
};
use mlxcel_core::{
    TokenId, Width,
    checkpoint::{Checkpoint, CheckpointWriter, Dtype, LinearTensors, Mode},
    family::Target,
};
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;
use serde_json::json;

const VOCAB: usize = 64;

fn formats() -> Vec<Packed> {
    let affine = [2, 3, 4, 5, 6, 8]
        .into_iter()
        .flat_map(|bits| [32, 64, 128].into_iter().map(move |group| Packed::Affine { bits, group }));
    let micro = [Mode::Mxfp4, Mode::Mxfp8, Mode::Nvfp4].into_iter().map(Packed::Micro);
    affine.chain(micro).chain([Packed::Half]).collect()
}

fn prompt() -> Vec<TokenId> {
    tokens(3, 24, VOCAB)
}

fn logits(target: &dyn Target) -> Vec<f32> {
    drive::all_logits(target, &mut target.new_state(Width::ONE), &prompt()).unwrap()
}

/// The same numbers, stored as f32.
fn dense(model: &RandomModel) -> RandomModel {
    let checkpoint = model.open().unwrap();
    let mut tensors = CheckpointWriter::new();
    for name in checkpoint.names() {
        let (dtype, shape) = checkpoint.peek(name).unwrap();
        if name.ends_with(".scales") || name.ends_with(".biases") {
            continue;
        }
        if dtype != Dtype::U32 {
            let shape = shape.to_vec();
            tensors = tensors.f32(name, &shape, &checkpoint.tensor(name).unwrap().to_f32().unwrap());
            continue;
        }
        let path = name.strip_suffix(".weight").unwrap();
        let (out, groups) = (shape[0], checkpoint.peek(&format!("{path}.scales")).unwrap().1[1]);
        let block = &model.config["quantization"];
        let input = groups * block["group_size"].as_u64().unwrap() as usize;
        let linear = checkpoint.linear(path, out, input).unwrap();
        assert!(matches!(linear, LinearTensors::Quantized(_)), "{name}");
        tensors = tensors.f32(name, &[out, input], &linear.to_f32());
    }
    let mut config = model.config.clone();
    config.as_object_mut().unwrap().remove("quantization");
    RandomModel { config, tensors }
}

#[test]
fn every_format_is_the_dense_model_of_the_same_numbers() {
    for packed in formats() {
        for tied in [true, false] {
            let model = random::lfm2::stored(packed, tied).target;
            let found = logits(load::target(model.open().unwrap()).unwrap().as_ref());
            let expected = logits(load::target(dense(&model).open().unwrap()).unwrap().as_ref());
            let (error, size) =
                (mean_abs(&found, &expected), mean_abs(&expected, &vec![0.0; expected.len()]));
            assert!(size > 0.3, "{packed:?}: the logits are all near 0: {size}");
            // Activations are rounded to 16 bits a row, and not at all for f16.
            assert!(error < 2e-3 * size, "{packed:?}, tied {tied}: {error} of {size}");
            let rows = found.chunks_exact(VOCAB).zip(expected.chunks_exact(VOCAB));
            assert!(rows.filter(|(a, b)| argmax(a) == argmax(b)).count() >= 23, "{packed:?}");
        }
    }
}

#[test]
fn speculation_changes_nothing_in_any_format() {
    for packed in formats() {
        let pair = random::lfm2::stored(packed, packed == Packed::Half).load().unwrap();
        let quantized = random::lfm2::stored(packed, true).drafter.open().unwrap();
        let codes = quantized.names().filter(|name| name.ends_with("q_proj.scales")).count();
        assert_eq!(codes > 0, packed != Packed::Half, "{packed:?}: the drafter is stored alike");
        let widths: Vec<_> = [1, 2, 4, 8].into_iter().filter_map(Width::new).collect();
        for sampling in settings().into_iter().take(3) {
            let ask = Ask { sampling, ..Ask::greedy(&prompt(), 16) };
            same_as_classic(pair.models(), &ask, &widths)
                .unwrap_or_else(|failure| panic!("{packed:?}: {failure}"));
        }
        block_equals_chain(pair.models(), &prompt(), &tokens(4, 8, VOCAB), &widths)
            .unwrap_or_else(|failure| panic!("{packed:?}: {failure}"));
    }
}

/// Layers of their own form among the others: other bits, another group, dense.
#[test]
fn layers_may_differ_from_the_rest() {
    let whole = random::lfm2::stored(Packed::Affine { bits: 4, group: 32 }, true);
    let wide = random::lfm2::stored(Packed::Affine { bits: 8, group: 64 }, true);
    let plain = dense(&whole.target);
    let [four, eight, none] = [&whole.target, &wide.target, &plain].map(|model| model.open().unwrap());
    let mut tensors = CheckpointWriter::new();
    let kind = |name: &str| match name {
        _ if name.contains("layers.1.self_attn.q_proj") => &eight,
        _ if name.contains("layers.2.feed_forward.w2") => &none,
        _ => &four,
    };
    for source in [&four, &eight, &none] {
        for name in source.names().filter(|name| std::ptr::eq(kind(name), source)) {
            let tensor = source.tensor(name).unwrap();
            tensors = tensors.tensor(name, tensor.dtype, tensor.shape, tensor.bytes);
        }
    }
    let mut config = whole.target.config.clone();
    config["quantization"]["model.layers.1.self_attn.q_proj"] = json!({"bits": 8, "group_size": 64});
    config["quantization"]["model.layers.2.feed_forward.w2"] = json!(false);
    let mixed = RandomModel { config: config.clone(), tensors: tensors.clone() };
    let found = load::target(mixed.open().unwrap()).unwrap();
    assert!(logits(found.as_ref()).iter().all(|logit| logit.is_finite()));
    // The shapes tell as much where the config says nothing of those layers.
    let silent = RandomModel { config: whole.target.config.clone(), tensors };
    let inferred = load::target(silent.open().unwrap()).unwrap();
    assert_eq!(logits(found.as_ref()), logits(inferred.as_ref()));
    // And a config that says otherwise is refused.
    config["quantization"]["model.layers.1.self_attn.q_proj"]["bits"] = json!(4);
    let error = load::target(mixed.open_as(config).unwrap()).err().unwrap().to_string();
    assert!(error.contains("model.layers.1.self_attn.q_proj.weight"), "{error}");
}

fn loaded(folder: &Path) -> Vec<f32> {
    logits(load::target(Checkpoint::open(folder).unwrap()).unwrap().as_ref())
}

/// One file, few tensors a file, one a file, without an index, with a stale one, with a file too many: one model.
#[test]
fn weights_split_oddly_are_the_same_model() {
    let RandomPair { target, .. } = random::lfm2::stored(Packed::Affine { bits: 4, group: 32 }, true);
    let expected = logits(load::target(target.open().unwrap()).unwrap().as_ref());
    let writer = target.tensors.clone().config(target.config.clone());
    let folder = || tempfile::tempdir().unwrap();
    for count in [1, 2, 7, 1000] {
        let split = folder();
        writer.clone().tensors_per_shard(count).write(split.path()).unwrap();
        assert_eq!(loaded(split.path()), expected, "{count} tensors a file");
        let index = split.path().join("model.safetensors.index.json");
        let text = fs::read(&index).unwrap();
        fs::remove_file(&index).unwrap();
        assert_eq!(loaded(split.path()), expected, "{count} tensors a file, no index");
        fs::write(&index, text).unwrap();
        let other = CheckpointWriter::new().f32("model.embedding_norm.weight", &[64], &[9.0; 64]);
        fs::write(split.path().join("extra.safetensors"), &other.contents().unwrap()["model.safetensors"])
            .unwrap();
        assert_eq!(loaded(split.path()), expected, "{count} tensors a file, one file too many");
    }
    let whole = folder();
    writer.write(whole.path()).unwrap();
    let stale = json!({"weight_map": {"model.embed_tokens.weight": "model-00001-of-00002.safetensors",
                                      "gone.weight": "model-00002-of-00002.safetensors"}});
    fs::write(whole.path().join("model.safetensors.index.json"), stale.to_string()).unwrap();
    assert_eq!(loaded(whole.path()), expected, "a stale index beside a whole file");
}
