use serde_json::{Value, json};

use super::super::tests::{opened, writer};
use super::super::{CheckpointError, CheckpointWriter};
use super::*;

const OUT: usize = 3;
const INPUT: usize = 128;

/// The tensors of a packed module with codes and scales that are all zero.
fn packed(config: &Value, bits: usize, group: usize, scales: Dtype, biases: bool) -> CheckpointWriter {
    let (words, groups) = (INPUT * bits / 32, INPUT / group);
    let size = OUT * groups * scales.bitsize() / 8;
    let with = writer(config.clone())
        .tensor("p.weight", Dtype::U32, &[OUT, words], vec![0; OUT * words * 4])
        .tensor("p.scales", scales, &[OUT, groups], vec![0; size]);
    if biases { with.tensor("p.biases", scales, &[OUT, groups], vec![0; size]) } else { with }
}

fn packing_of(writer: &CheckpointWriter) -> Result<Packing> {
    match opened(writer)?.linear("p", OUT, INPUT)? {
        LinearTensors::Quantized(quantized) => {
            assert_eq!((quantized.out, quantized.input), (OUT, INPUT));
            Ok(quantized.packing)
        }
        LinearTensors::Dense(_) => panic!("dense"),
    }
}

fn refused(writer: &CheckpointWriter) -> String {
    opened(writer).unwrap().linear("p", OUT, INPUT).unwrap_err().to_string()
}

#[test]
fn the_packing_comes_from_the_shapes_or_from_the_module() {
    let block = |inner: Value| {
        let mut block = json!({"group_size": 64, "bits": 4});
        block.as_object_mut().unwrap().extend(inner.as_object().unwrap().clone());
        json!({ "quantization": block })
    };
    for bits in [2, 3, 4, 5, 6, 8] {
        for group in [32, 64, 128] {
            let expected = Packing { mode: Mode::Affine, bits, group };
            // The shapes win over the block's default,
            let inferred = packed(&block(json!({})), bits, group, Dtype::BF16, true);
            assert_eq!(packing_of(&inferred).unwrap(), expected);
            // need no block at all,
            assert_eq!(packing_of(&packed(&json!({}), bits, group, Dtype::F16, true)).unwrap(), expected);
            // and must agree with the module's own rule.
            let own = json!({"p": {"bits": bits, "group_size": group}});
            assert_eq!(packing_of(&packed(&block(own), bits, group, Dtype::F32, true)).unwrap(), expected);
        }
    }
    for (mode, name, bits, group) in
        [(Mode::Mxfp4, "mxfp4", 4, 32), (Mode::Mxfp8, "mxfp8", 8, 32), (Mode::Nvfp4, "nvfp4", 4, 16)]
    {
        let expected = Packing { mode, bits, group };
        assert_eq!(packing_of(&packed(&json!({}), bits, group, Dtype::U8, false)).unwrap(), expected);
        let own = block(json!({"p": {"mode": name, "bits": bits, "group_size": group}}));
        assert_eq!(packing_of(&packed(&own, bits, group, Dtype::U8, false)).unwrap(), expected);
    }
}

#[test]
fn a_module_rule_that_the_file_contradicts_is_refused() {
    let own = json!({"quantization": {"group_size": 64, "bits": 4, "p": {"bits": 8, "group_size": 64}}});
    let error = refused(&packed(&own, 4, 64, Dtype::BF16, true));
    assert_eq!(error, "model.safetensors: p.weight has shape [3, 16], expected [3, 32]");
    let dense = json!({"quantization": {"group_size": 64, "bits": 4, "p": false}});
    let error = refused(&packed(&dense, 4, 64, Dtype::BF16, true));
    assert_eq!(error, "model.safetensors: p.weight has dtype U32, expected F32 or F16 or BF16");
}

#[test]
fn a_missing_part_is_named() {
    let words = vec![0; OUT * 64];
    let without_scales =
        |config: &Value| writer(config.clone()).tensor("p.weight", Dtype::U32, &[OUT, 16], words.clone());
    let default = json!({"quantization": {"group_size": 64, "bits": 4}});
    let error = refused(&without_scales(&default));
    assert_eq!(error, "model.safetensors: tensor p.scales is missing, expected for the packed p.weight");
    let own = json!({"quantization": {"group_size": 64, "bits": 4, "p": {"bits": 4, "group_size": 64}}});
    let error = refused(&without_scales(&own));
    assert_eq!(
        error,
        "model.safetensors: tensor p.scales is missing, expected for p (affine 4-bit group 64)"
    );
    let error = refused(&packed(&default, 4, 64, Dtype::BF16, false));
    assert!(error.contains("tensor p.biases is missing"), "{error}");
    let error = refused(&writer(default));
    assert!(error.contains("tensor p.weight is missing"), "{error}");
}

#[test]
fn parts_of_the_wrong_form_are_refused() {
    let four = || packed(&json!({}), 4, 64, Dtype::BF16, true);
    let small =
        |dtype: Dtype, shape: &[usize]| vec![0; shape.iter().product::<usize>() * dtype.bitsize() / 8];
    for (name, dtype, shape, expected) in [
        ("p.weight", Dtype::I32, &[3, 16][..], "dtype I32, expected U32"),
        ("p.weight", Dtype::U32, &[4, 16], "shape [4, 16], expected [3, 16]"),
        ("p.weight", Dtype::U32, &[48], "shape [48], expected two axes"),
        ("p.weight", Dtype::U32, &[3, 17], "17 words of 32 bits and 2 BF16 scales a row"),
        ("p.scales", Dtype::BF16, &[4, 2], "shape [4, 2], expected [3, 2]"),
        ("p.scales", Dtype::BF16, &[6], "shape [6], expected two axes"),
        ("p.scales", Dtype::I16, &[3, 2], "dtype I16, expected F32 or F16 or BF16 or U8"),
        ("p.scales", Dtype::U8, &[3, 2], "4 words"),
        ("p.biases", Dtype::F32, &[3, 2], "dtype F32, expected BF16"),
        ("p.biases", Dtype::BF16, &[3, 1], "shape [3, 1], expected [3, 2]"),
    ] {
        let error = refused(&four().tensor(name, dtype, shape, small(dtype, shape)));
        let expected = if expected == "4 words" { "16 words of 32 bits and 2 U8 scales" } else { expected };
        assert!(error.contains(name) || error.contains("p.weight"), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_row_that_is_no_whole_number_of_groups_is_dense() {
    let config = json!({"quantization": {"group_size": 64, "bits": 4, "p": {"group_size": 64, "bits": 4}}});
    let odd = writer(config).bf16("p.weight", &[2, 96], &[1.0; 192]);
    let checkpoint = opened(&odd).unwrap();
    assert!(matches!(checkpoint.linear("p", 2, 96).unwrap(), LinearTensors::Dense(_)));
    assert!(matches!(checkpoint.linear("p", 96, 2), Err(CheckpointError::Tensor { .. })));
}

#[test]
fn a_head_has_its_own_bits() {
    let config =
        json!({"quantization": {"bits": 4, "group_size": 64, "lm_head": {"bits": 8, "group_size": 64}}});
    let head = packed(&config, 4, 64, Dtype::BF16, true)
        .tensor("lm_head.weight", Dtype::U32, &[OUT, 32], vec![0; OUT * 128])
        .bf16("lm_head.scales", &[OUT, 2], &[0.5; 6])
        .bf16("lm_head.biases", &[OUT, 2], &[0.25; 6]);
    let checkpoint = opened(&head).unwrap();
    let linear = checkpoint.linear("lm_head", OUT, INPUT).unwrap();
    let LinearTensors::Quantized(quantized) = linear else { panic!("dense") };
    assert_eq!(quantized.packing.bits, 8);
    assert_eq!(linear.to_f32(), vec![0.25; OUT * INPUT]);
    assert!(matches!(checkpoint.linear("p", OUT, INPUT).unwrap(), LinearTensors::Quantized(_)));
    checkpoint.finish().unwrap();
}

/// Bytes in memory of the mapping that holds `address`.
#[cfg(target_os = "linux")]
fn resident(address: usize) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in maps.lines() {
        let bound = |text: &str| usize::from_str_radix(text, 16).ok();
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        if let Some((start, end)) = range.and_then(|(start, end)| Some((bound(start)?, bound(end)?))) {
            inside = (start..end).contains(&address);
        } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| inside) {
            return size.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024;
        }
    }
    panic!("no mapping at {address:#x}")
}

#[cfg(target_os = "linux")]
#[test]
fn a_released_weight_is_out_of_memory_and_still_readable() {
    const ROWS: usize = 4096;
    let bytes: Vec<u8> = (0..ROWS * INPUT * 4).map(|i| (i / 3) as u8).collect();
    let writer = writer(json!({})).tensor("p.weight", Dtype::F32, &[ROWS, INPUT], bytes.clone());
    let folder = super::super::tests::written(&writer);
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    let tensors = checkpoint.linear("p", ROWS, INPUT).unwrap();
    let LinearTensors::Dense(dense) = tensors else { panic!("packed") };
    assert!(dense.bytes == bytes);
    let address = dense.bytes.as_ptr().addr();
    assert!(resident(address) >= bytes.len(), "read, so it is in memory");
    checkpoint.release(&tensors);
    assert!(resident(address) < bytes.len() / 4, "{} of {} bytes stay", resident(address), bytes.len());
    assert!(dense.bytes == bytes);
}
