//! A checkpoint as a whole: opened, read by name, renamed, finished.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A folder with a written checkpoint.
pub(super) fn written(writer: &CheckpointWriter) -> TempDir {
    let folder = TempDir::new().unwrap();
    writer.write(folder.path()).unwrap();
    folder
}

/// The checkpoint of a writer, opened; the mapping outlives the folder.
pub(super) fn opened(writer: &CheckpointWriter) -> Result<Checkpoint> {
    Checkpoint::open(written(writer).path())
}

pub(super) fn writer(config: Value) -> CheckpointWriter {
    CheckpointWriter::new().config(config)
}

fn small() -> CheckpointWriter {
    writer(json!({"model_type": "test", "hidden_size": 2}))
        .f32("model.norm.weight", &[2], &[1.0, -2.0])
        .bf16("model.up.weight", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        .tensor("model.steps", Dtype::I32, &[1], vec![7, 0, 0, 0])
}

#[test]
fn tensors_are_read_by_name_and_shape() {
    let checkpoint = opened(&small()).unwrap();
    assert_eq!(checkpoint.config().str("model_type").unwrap(), "test");
    let names = ["model.norm.weight", "model.steps", "model.up.weight"];
    assert_eq!(checkpoint.names().collect::<Vec<_>>(), names);
    assert_eq!(checkpoint.vector("model.norm.weight", 2).unwrap(), [1.0, -2.0]);
    assert_eq!(checkpoint.array_f32("model.up.weight", &[3, 2]).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(checkpoint.tensor("model.steps").unwrap().bytes, [7, 0, 0, 0]);
    assert!(checkpoint.opt_vector("model.bias", 2).unwrap().is_none());
    let LinearTensors::Dense(up) = checkpoint.linear("model.up", 3, 2).unwrap() else { panic!("dense") };
    assert_eq!((up.out, up.input, up.dtype, up.bytes.len()), (3, 2, Dtype::BF16, 12));
}

#[test]
fn what_nobody_reads_is_listed() {
    let checkpoint = opened(&small()).unwrap();
    assert_eq!(checkpoint.peek("model.steps"), Some((Dtype::I32, &[1][..])));
    assert_eq!(checkpoint.unused().len(), 3, "a peek is no use");
    checkpoint.vector("model.norm.weight", 2).unwrap();
    assert_eq!(checkpoint.unused(), ["model.steps", "model.up.weight"]);
    assert!(matches!(checkpoint.finish(), Err(CheckpointError::UnusedTensors { count: 2, .. })));
    checkpoint.tensor("model.steps").unwrap();
    checkpoint.linear("model.up", 3, 2).unwrap();
    checkpoint.finish().unwrap();
}

#[test]
fn numbers_that_are_none_are_found() {
    let checkpoint = opened(&small()).unwrap();
    checkpoint.check_finite().unwrap();
    assert_eq!(checkpoint.unused().len(), 3, "looking is no use");
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let spoilt = small().bf16("model.gate.weight", &[3], &[0.0, value, f32::NAN]);
        let error = opened(&spoilt).unwrap().check_finite().unwrap_err().to_string();
        assert!(
            error.contains("model.gate.weight") && error.contains(&format!("{value} as number 1")),
            "{error}"
        );
    }
}

#[test]
fn shards_and_one_file_read_the_same() {
    let folder = written(&small().tensors_per_shard(2));
    assert!(folder.path().join("model-00002-of-00002.safetensors").exists());
    let sharded = Checkpoint::open(folder.path()).unwrap();
    let whole = opened(&small()).unwrap();
    for name in whole.names() {
        let (a, b) = (whole.tensor(name).unwrap(), sharded.tensor(name).unwrap());
        assert_eq!((a.dtype, a.shape, a.bytes), (b.dtype, b.shape, b.bytes));
    }
    assert_eq!(sharded.names().count(), 3);
}

#[test]
fn embedded_files_are_a_checkpoint_too() {
    let contents = small().file("tokenizer.json", "{}").contents().unwrap();
    let files = contents
        .into_iter()
        .map(|(name, bytes)| (&*String::leak(name), &*Vec::leak(bytes)))
        .collect::<Vec<_>>();
    let checkpoint = Checkpoint::embedded(Vec::leak(files)).unwrap();
    assert_eq!(checkpoint.vector("model.norm.weight", 2).unwrap(), [1.0, -2.0]);
    assert_eq!(&*checkpoint.source().bytes("tokenizer.json").unwrap().unwrap(), b"{}");
    assert!(checkpoint.source().bytes("missing.json").unwrap().is_none());
    assert_eq!(checkpoint.digest(), opened(&small()).unwrap().digest());
}

#[test]
fn a_source_gives_files_of_its_folder_only() {
    let folder = written(&small().file("tokenizer.json", "{}"));
    let source = Source::Folder(folder.path().to_owned());
    assert_eq!(source.names().unwrap(), ["config.json", "model.safetensors", "tokenizer.json"]);
    assert_eq!(&*source.bytes("tokenizer.json").unwrap().unwrap(), b"{}");
    assert!(source.bytes("vocab.json").unwrap().is_none());
    assert!(source.contains("tokenizer.json") && !source.contains("vocab.json"));
    for outside in ["../config.json", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "c:x", "a\0b"] {
        assert!(source.bytes(outside).is_err(), "{outside}");
        assert!(!source.contains(outside), "{outside}");
    }
}

#[test]
fn names_follow_the_rule_of_the_family() {
    let rule = |name: &str| match name {
        "model.steps" => None,
        name => Some(name.replacen("model.", "tower.", 1)),
    };
    let checkpoint = opened(&small()).unwrap().with_names(rule).unwrap();
    assert_eq!(checkpoint.names().collect::<Vec<_>>(), ["tower.norm.weight", "tower.up.weight"]);
    assert_eq!(checkpoint.vector("tower.norm.weight", 2).unwrap(), [1.0, -2.0]);
    let error = opened(&small()).unwrap().with_names(|_| Some("same".to_owned())).unwrap_err();
    assert!(matches!(error, CheckpointError::NameCollision { .. }), "{error}");
}

#[test]
fn quantization_rules_are_renamed_with_the_weights() {
    let block = json!({"group_size": 32, "bits": 4, "model.head": false, "model.vision.x": false});
    let packed = writer(json!({ "quantization": block })).bf16("model.head.weight", &[1, 32], &[1.0; 32]);
    let rule = |name: &str| (!name.contains("vision")).then(|| name.replacen("model.", "text.", 1));
    let checkpoint = opened(&packed).unwrap().with_names(rule).unwrap();
    assert_eq!(checkpoint.quantization.rule("text.head"), quantization::Rule::Dense);
    assert_eq!(checkpoint.quantization.modules.len(), 1);

    let twice = |a, b| {
        let block = json!({"group_size": 32, "bits": 4, "model.head": a, "text.head": b});
        let packed = writer(json!({ "quantization": block })).bf16("model.head.weight", &[1], &[1.0]);
        opened(&packed).unwrap().with_names(rule)
    };
    assert!(twice(false, false).is_ok());
    let error = twice(false, true).unwrap_err().to_string();
    assert_eq!(
        error,
        "model.head and text.head both become quantization.text.head, expected different names"
    );
}
