use serde_json::{Value, json};

use super::*;

fn read(config: &Value) -> Result<Quantization> {
    Quantization::read(&Config::parse("config.json", config.to_string().as_bytes()).unwrap())
}

fn refused(config: &Value) -> String {
    read(config).unwrap_err().to_string()
}

fn affine(bits: usize, group: usize) -> Rule {
    Rule::Packed(Packing { mode: Mode::Affine, bits, group })
}

#[test]
fn modules_take_missing_fields_from_the_top() {
    let block = json!({
        "group_size": 64, "bits": 4,
        "a": {"bits": 8}, "b": {"group_size": 32}, "c": false, "d": true,
        "e": {"mode": "nvfp4", "group_size": 16}, "linear_class": "QuantizedLinear",
    });
    let read = read(&json!({ "quantization": block })).unwrap();
    assert_eq!(read.rule("a"), affine(8, 64));
    assert_eq!(read.rule("b"), affine(4, 32));
    assert_eq!(read.rule("c"), Rule::Dense);
    assert_eq!(read.rule("d"), affine(4, 64));
    assert_eq!(read.rule("e"), Rule::Packed(Packing { mode: Mode::Nvfp4, bits: 4, group: 16 }));
    assert_eq!(read.rule("anything else"), Rule::Inferred);
    assert_eq!(read.modules.len(), 5);
}

#[test]
fn a_module_without_mode_is_affine_whatever_the_top_says() {
    let block = json!({"group_size": 32, "bits": 4, "mode": "mxfp4", "a": {"bits": 8}});
    assert_eq!(read(&json!({ "quantization": block })).unwrap().rule("a"), affine(8, 32));
}

#[test]
fn both_blocks_must_be_one() {
    let (one, other) = (json!({"group_size": 64, "bits": 4}), json!({"bits": 4, "group_size": 64}));
    assert!(read(&json!({"quantization": one, "quantization_config": other})).is_ok());
    assert!(read(&json!({ "quantization_config": one })).is_ok());
    assert!(read(&json!({"quantization": one, "quantization_config": null})).is_ok());
    assert!(read(&json!({})).unwrap().modules.is_empty());
    let different = json!({"quantization": one, "quantization_config": {"group_size": 64, "bits": 8}});
    assert!(refused(&different).contains("expected the same object as quantization, or none"));
}

#[test]
fn other_tools_are_refused_by_name() {
    for method in ["gptq", "awq", "fp8", "compressed-tensors", "modelopt", "bitsandbytes", "mxfp4", "quark"] {
        let block = json!({"quant_method": method, "bits": 4, "group_size": 128});
        let root = refused(&json!({ "quantization_config": block }));
        assert!(root.contains(&format!("quantization_config.quant_method is \"{method}\"")), "{root}");
        let text = refused(&json!({"text_config": {"quantization_config": block}}));
        assert!(text.contains("text_config.quantization_config.quant_method"), "{text}");
        let beside = json!({"quantization": {"bits": 4, "group_size": 64}, "quantization_config": block});
        assert!(refused(&beside).contains(method));
    }
}

#[test]
fn only_packings_that_mlx_knows_are_read() {
    let top = |block: Value| read(&json!({ "quantization": block }));
    for bits in 0..10 {
        for group in [0, 8, 16, 32, 64, 128, 256] {
            let known = [2, 3, 4, 5, 6, 8].contains(&bits) && [32, 64, 128].contains(&group);
            assert_eq!(top(json!({"bits": bits, "group_size": group})).is_ok(), known, "{bits} {group}");
            for (mode, only) in [("mxfp4", (4, 32)), ("mxfp8", (8, 32)), ("nvfp4", (4, 16))] {
                let block = json!({"bits": bits, "group_size": group, "mode": mode});
                assert_eq!(top(block).is_ok(), (bits, group) == only, "{mode} {bits} {group}");
            }
        }
    }
    for block in [
        json!({"bits": 4}),
        json!({"group_size": 64}),
        json!({"bits": "4", "group_size": 64}),
        json!({"bits": 4, "group_size": 64, "mode": "nf4"}),
        json!({"bits": 4, "group_size": 64, "mode": 1}),
        json!({"bits": 4, "group_size": 64, "a.b": {"bits": 7}}),
        json!([4, 64]),
    ] {
        assert!(top(block.clone()).is_err(), "{block}");
    }
}

#[test]
fn shapes_tell_the_packing() {
    let infer = Packing::infer;
    let packing = |mode, bits, group| Some(Packing { mode, bits, group });
    for bits in AFFINE_BITS {
        for group in AFFINE_GROUPS {
            assert_eq!(infer(384, 12 * bits, 384 / group, false), packing(Mode::Affine, bits, group));
        }
    }
    assert_eq!(infer(128, 16, 8, true), packing(Mode::Nvfp4, 4, 16));
    assert_eq!(infer(128, 16, 4, true), packing(Mode::Mxfp4, 4, 32));
    assert_eq!(infer(128, 32, 4, true), packing(Mode::Mxfp8, 8, 32));
    for (words, groups, bytes) in [
        (16, 3, false),
        (17, 2, false),
        (16, 0, false),
        (0, 2, false),
        (28, 2, false),
        (16, 8, false),
        (16, 2, true),
        (32, 8, true),
    ] {
        assert_eq!(infer(128, words, groups, bytes), None, "{words} {groups} {bytes}");
    }
    assert_eq!(infer(0, 1, 1, false), None);
}
