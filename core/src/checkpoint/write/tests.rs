use serde_json::json;

use super::super::Checkpoint;
use super::super::tests::{opened, writer};
use super::*;

#[test]
fn what_is_written_is_read_back() {
    let bytes = (0..=255).collect::<Vec<u8>>();
    let writer = writer(json!({"a": 1}))
        .tensor("raw", Dtype::U8, &[256], bytes.clone())
        .f32("single", &[1, 3], &[1.5, -0.0, f32::MAX])
        .bf16("brain", &[2], &[1.0, 1.003])
        .f32("empty", &[0, 4], &[])
        .f32("scalar", &[], &[4.0]);
    for writer in [writer.clone(), writer.clone().tensors_per_shard(2), writer.tensors_per_shard(1)] {
        let checkpoint = opened(&writer).unwrap();
        assert_eq!(checkpoint.tensor("raw").unwrap().bytes, bytes);
        assert_eq!(checkpoint.array_f32("single", &[1, 3]).unwrap(), [1.5, -0.0, f32::MAX]);
        assert_eq!(checkpoint.vector("brain", 2).unwrap(), [1.0, 1.0], "rounded to the nearest");
        assert_eq!(checkpoint.array_f32("empty", &[0, 4]).unwrap(), [0.0; 0]);
        assert_eq!(checkpoint.array_f32("scalar", &[]).unwrap(), [4.0]);
        assert_eq!(checkpoint.config().dim("a").unwrap(), 1);
        assert!(checkpoint.notes().is_empty());
        checkpoint.finish().unwrap();
    }
}

#[test]
fn bytes_that_do_not_fit_a_shape_are_not_written() {
    let folder = tempfile::TempDir::new().unwrap();
    let error = writer(json!({})).tensor("a", Dtype::F32, &[2], vec![0; 4]).write(folder.path()).unwrap_err();
    assert_eq!(error.to_string(), "model.safetensors: a has 4 bytes, expected 8 for F32 [2]");
    assert!(Checkpoint::open(folder.path()).is_err());
}
