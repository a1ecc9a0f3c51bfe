//! Multiply-adds a second of one thread on weights that lie in its cache: what a linear layer costs beyond its memory.
//!
//! `cargo run --release -p mlxcel-kernels --example linear_rates [INSTRUCTION SET]`. The shortest of many short calls, so that it
//! holds on a busy machine too.

use std::time::Instant;

use mlxcel_kernels::linear::{
    FloatType, LinearPart, LinearScratch, LinearWeights, PackedLinear, QuantFormat,
};
use mlxcel_kernels::{Exec, Isa};

const INPUTS: usize = 1024;
const ROWS: [usize; 10] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 64];

/// Outputs of a matrix of 256 KiB.
fn outputs(format: Option<QuantFormat>) -> usize {
    256 * 16 / format.map_or(16, QuantFormat::bits) / 2
}

fn pack(format: Option<QuantFormat>) -> Result<PackedLinear, Box<dyn std::error::Error>> {
    let bf16 =
        |n: usize| (0..n).flat_map(|i| (0x3c00 + (i * 37 % 128) as u16).to_le_bytes()).collect::<Vec<_>>();
    let (dtype, outputs) = (FloatType::Bf16, outputs(format));
    let (scales, dense) = (bf16(INPUTS * outputs / 32), bf16(INPUTS * outputs));
    let codes: Vec<u8> = (0..INPUTS * outputs).map(|i| (i * 167) as u8).collect();
    let weights = match format {
        None => LinearWeights::Dense { dtype, bytes: &dense },
        Some(format) => {
            let scales = &scales[..INPUTS * outputs / format.group() * 2];
            let weight = &codes[..INPUTS * outputs * format.bits() / 8];
            LinearWeights::Quantized { format, weight, scales, biases: scales, dtype }
        }
    };
    Ok(PackedLinear::pack(&[LinearPart { out_features: outputs, weights }], INPUTS)?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked = std::env::args().nth(1);
    println!("G multiply-adds a second, {INPUTS} inputs, one thread\n{:>20} {ROWS:>6?}", "rows");
    for isa in
        Isa::available().into_iter().filter(|isa| asked.as_deref().is_none_or(|name| name == isa.name()))
    {
        for (name, format) in [
            ("4 bit", Some(QuantFormat::Affine { bits: 4, group: 64 })),
            ("8 bit", Some(QuantFormat::Affine { bits: 8, group: 64 })),
            ("bf16", None),
        ] {
            let (weights, exec, outputs) = (pack(format)?, Exec::new(isa, 1), outputs(format));
            let mut scratch = LinearScratch::default();
            let rates: Vec<String> = ROWS
                .iter()
                .map(|&rows| {
                    let x: Vec<f32> =
                        (0..rows * INPUTS).map(|i| (i * 37 % 101) as f32 / 13.0 - 4.0).collect();
                    let mut out = vec![0.0; rows * outputs];
                    let mut best = f64::INFINITY;
                    for _ in 0..2000 / rows + 50 {
                        let start = Instant::now();
                        weights.forward_with(&exec, &x, rows, &mut out, &mut scratch);
                        best = best.min(start.elapsed().as_secs_f64());
                    }
                    format!("{:5.1}", (rows * INPUTS * outputs) as f64 / best / 1e9)
                })
                .collect();
            println!("{:>9} {name:>10} {}", isa.name(), rates.join("  "));
        }
    }
    Ok(())
}
