//! The case "index and files disagree" in all its forms.

use serde_json::json;
use tempfile::TempDir;

use super::super::tests::written;
use super::super::{Checkpoint, CheckpointWriter, Dtype};
use super::*;

const FIRST: &str = "model-00001-of-00002.safetensors";
const SECOND: &str = "model-00002-of-00002.safetensors";

fn tensors(value: u8) -> CheckpointWriter {
    CheckpointWriter::new()
        .config(json!({"model_type": "test"}))
        .tensor("a", Dtype::U8, &[1], vec![value])
        .tensor("b", Dtype::U8, &[1], vec![value + 1])
}

/// Tensor a in the first shard, b in the second.
fn sharded() -> TempDir {
    written(&tensors(1).tensors_per_shard(1))
}

fn whole(value: u8) -> Vec<u8> {
    tensors(value).contents().unwrap().remove(SINGLE).unwrap()
}

fn put(folder: &TempDir, name: &str, bytes: impl AsRef<[u8]>) {
    std::fs::write(folder.path().join(name), bytes).unwrap();
}

fn remove(folder: &TempDir, name: &str) {
    std::fs::remove_file(folder.path().join(name)).unwrap();
}

fn open(folder: &TempDir) -> Result<Checkpoint> {
    Checkpoint::open(folder.path())
}

fn values(folder: &TempDir) -> (Vec<u8>, Checkpoint) {
    let checkpoint = open(folder).unwrap();
    let values = ["a", "b"].map(|name| checkpoint.tensor(name).unwrap().bytes[0]).to_vec();
    (values, checkpoint)
}

fn put_index(folder: &TempDir, weight_map: &Value) {
    put(folder, INDEX, json!({ "weight_map": weight_map }).to_string());
}

#[test]
fn a_shard_that_the_index_names_is_missing() {
    let folder = sharded();
    remove(&folder, SECOND);
    let error = open(&folder).unwrap_err();
    assert_eq!(error.to_string(), format!("{SECOND}: missing, expected because {INDEX} names it"));
    assert!(error.hint().unwrap().contains("incomplete"));
    // A whole file beside it does not make it complete: which of the two is the model?
    put(&folder, SINGLE, whole(9));
    assert!(open(&folder).is_err());
}

#[test]
fn a_stale_index_beside_a_whole_file_is_noted() {
    let folder = written(&tensors(5));
    put_index(&folder, &json!({"a": FIRST, "b": SECOND, "c": SECOND}));
    let (values, checkpoint) = values(&folder);
    assert_eq!(values, [5, 6]);
    assert!(checkpoint.notes()[0].contains("stale"), "{:?}", checkpoint.notes());
}

#[test]
fn shards_without_index_load() {
    let folder = sharded();
    remove(&folder, INDEX);
    assert_eq!(values(&folder).0, [1, 2]);
    remove(&folder, FIRST);
    let error = open(&folder).unwrap_err().to_string();
    assert_eq!(error, format!("{FIRST}: missing, expected because {SECOND} is one of 2"));
}

#[test]
fn a_tensor_is_not_in_the_shard_that_the_index_says() {
    let folder = sharded();
    put_index(&folder, &json!({"a": FIRST, "b": SECOND, "c": SECOND}));
    let error = open(&folder).unwrap_err().to_string();
    assert_eq!(error, format!("{SECOND}: tensor c is missing, expected because {INDEX} lists it there"));
    put_index(&folder, &json!({"a": FIRST, "b": FIRST}));
    assert!(matches!(open(&folder), Err(CheckpointError::NotInShard { .. })));
}

#[test]
fn the_index_wins_over_files_that_it_does_not_name() {
    let folder = sharded();
    put(&folder, "model-extra.safetensors", whole(40));
    put(&folder, SINGLE, whole(60));
    assert_eq!(values(&folder).0, [1, 2]);
    remove(&folder, INDEX);
    let error = open(&folder).unwrap_err().to_string();
    assert!(error.starts_with("tensor a is in model-00001-of-00002.safetensors and in "), "{error}");
}

#[test]
fn the_index_decides_between_two_copies() {
    let folder = sharded();
    put(&folder, SECOND, whole(7));
    let (values, checkpoint) = values(&folder);
    assert_eq!(values, [1, 8]);
    assert_eq!(checkpoint.notes().len(), 1);
}

#[test]
fn tensors_that_the_index_forgot_are_read() {
    let folder = sharded();
    put_index(&folder, &json!({"a": FIRST, "b": SECOND}));
    let with_scales = tensors(1).tensor("b.scales", Dtype::U8, &[1], vec![9]).contents().unwrap();
    let mut second = CheckpointWriter::new().tensor("b", Dtype::U8, &[1], vec![2]);
    second = second.tensor("b.scales", Dtype::U8, &[1], vec![9]);
    assert_eq!(with_scales.len(), 2);
    put(&folder, SECOND, &second.contents().unwrap()[SINGLE]);
    assert_eq!(open(&folder).unwrap().names().count(), 3);
}

#[test]
fn shards_stay_in_the_folder() {
    let folder = sharded();
    let outside = ["../other/model.safetensors", "/etc/passwd", "..", "a/b.safetensors", "config.json", ""];
    for name in outside {
        put_index(&folder, &json!({"a": FIRST, "b": name}));
        let error = open(&folder).unwrap_err().to_string();
        assert!(error.contains("weight_map.b is"), "{error}");
    }
    put_index(&folder, &json!({"a": FIRST, "b": 3}));
    assert!(open(&folder).is_err());
}

#[test]
fn an_index_that_says_nothing_is_refused() {
    let folder = sharded();
    for text in ["", "{}", "[]", "{\"weight_map\": {}}", "{\"weight_map\": []}", "{"] {
        put(&folder, INDEX, text);
        assert!(open(&folder).is_err(), "{text}");
    }
}

#[test]
fn shard_numbers_are_read_with_care() {
    assert_eq!(numbered("model-00001-of-00003.safetensors"), Some(("00001", 3)));
    for name in [
        "model.safetensors",
        "model-1-of-.safetensors",
        "model--of-3.safetensors",
        "model-a-of-3.safetensors",
        "model-1-of-99999999999999999999.safetensors",
        "model-1-of-99999.safetensors",
    ] {
        assert_eq!(numbered(name), None, "{name}");
    }
}

#[test]
fn a_truncated_shard_is_named() {
    let folder = sharded();
    let bytes = std::fs::read(folder.path().join(SECOND)).unwrap();
    put(&folder, SECOND, &bytes[..bytes.len() - 1]);
    assert!(open(&folder).unwrap_err().to_string().starts_with(SECOND));
    put(&folder, SECOND, []);
    let error = open(&folder).unwrap_err().to_string();
    assert!(error.contains("0 bytes, expected a safetensors file"), "{error}");
}
