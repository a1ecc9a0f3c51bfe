//! Writes a checkpoint again with its matrices in affine codes of 4 or 8 bit: the drafters of the repository's pairs.
//!
//! `cargo run -p conformance --example quantize -- FROM TO 4|8`

use std::{error::Error, fs, path::Path};

use half::bf16;
use mlxcel_core::checkpoint::{Checkpoint, CheckpointWriter, Dtype};
use serde_json::{Value, json};

/// Numbers that share a scale and a bias.
const GROUP: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: quantize FROM TO BITS, where BITS is 4 or 8";
    let [from, to, bits] = arguments.as_slice() else { return Err(usage.into()) };
    let bits: usize = bits.parse()?;
    if ![4, 8].contains(&bits) {
        return Err(usage.into());
    }
    let mut config: Value = serde_json::from_slice(&fs::read(Path::new(from).join("config.json"))?)?;
    config["quantization"] = json!({ "bits": bits, "group_size": GROUP, "mode": "affine" });
    let checkpoint = Checkpoint::open(from)?;
    let mut writer = CheckpointWriter::new().config(config);
    for name in checkpoint.names() {
        let tensor = checkpoint.tensor(name)?;
        writer = match (name.strip_suffix(".weight"), tensor.shape) {
            (Some(path), &[out, input]) if input.is_multiple_of(GROUP) => {
                let codes = Codes::of(&tensor.to_f32()?, bits);
                let groups = [out, input / GROUP];
                writer
                    .tensor(name, Dtype::U32, &[out, input * bits / 32], codes.packed)
                    .bf16(format!("{path}.scales"), &groups, &codes.scales)
                    .bf16(format!("{path}.biases"), &groups, &codes.biases)
            }
            _ => writer.tensor(name, tensor.dtype, tensor.shape, tensor.bytes),
        };
    }
    writer.write(to)?;
    Ok(())
}

/// Numbers as codes: code c of a group means `c · scale + bias`.
struct Codes {
    packed: Vec<u8>,
    scales: Vec<f32>,
    biases: Vec<f32>,
}

impl Codes {
    /// The nearest codes between the least and the largest number of every group.
    fn of(values: &[f32], bits: usize) -> Self {
        let last = (1u32 << bits) as f32 - 1.0;
        let mut codes = Self { packed: Vec::new(), scales: Vec::new(), biases: Vec::new() };
        for group in values.chunks_exact(GROUP) {
            let least = group.iter().copied().fold(f32::INFINITY, f32::min);
            let most = group.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            // As they are stored, so that codes are the nearest to what a reader makes of them.
            let bias = bf16::from_f32(least).to_f32();
            let scale = bf16::from_f32(((most - bias) / last).max(1e-7)).to_f32();
            let code = |value: &f32| ((value - bias) / scale).round().clamp(0.0, last) as u8;
            if bits == 8 {
                codes.packed.extend(group.iter().map(code));
            } else {
                // The first of two lies in the low half of a byte.
                let pair = |two: &[f32]| code(&two[0]) | (code(&two[1]) << 4);
                codes.packed.extend(group.chunks_exact(2).map(pair));
            }
            codes.scales.push(scale);
            codes.biases.push(bias);
        }
        codes
    }
}
