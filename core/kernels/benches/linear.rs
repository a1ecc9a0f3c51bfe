//! Linear layers from memory: rows x format, in bytes of weights a second, beside the machine's read limit.
//!
//! `cargo bench -p mlxcel-kernels --bench linear`. Weights are copied often enough that none is in a cache
//! when its turn comes again (machines with more than [`WORKING_SET`] of cache need more).

mod common;

use common::{WORKING_SET, config, stream};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mlxcel_kernels::linear::{
    FloatType, LinearPart, LinearScratch, LinearWeights, PackedLinear, QuantFormat,
};

/// `[in, out]`: a projection, a joined gate and up, a head.
const SHAPES: [(usize, usize); 3] = [(1024, 1024), (1024, 4608), (1024, 65536)];

const ROWS: [usize; 6] = [1, 2, 4, 8, 16, 64];

const FORMATS: [(&str, Option<QuantFormat>); 4] = [
    ("4bit-g64", Some(QuantFormat::Affine { bits: 4, group: 64 })),
    ("8bit-g64", Some(QuantFormat::Affine { bits: 8, group: 64 })),
    ("mxfp4", Some(QuantFormat::Mxfp4)),
    ("bf16", None),
];

/// `n` bf16 values in 0.0078 to 0.0156: any weights will do, NaN and subnormals would be slower or
/// meaningless.
fn bf16(n: usize) -> Vec<u8> {
    (0..n).flat_map(|i| (0x3c00 + (i * 37 % 128) as u16).to_le_bytes()).collect()
}

fn pack(
    format: Option<QuantFormat>,
    inputs: usize,
    outputs: usize,
) -> Result<PackedLinear, impl std::error::Error> {
    let (weight, scales, biases) = match format {
        None => (bf16(inputs * outputs), vec![], vec![]),
        Some(format) => {
            let groups = inputs * outputs / format.group();
            let codes = (0..inputs * outputs * format.bits() / 8).map(|i| (i * 167) as u8).collect();
            match format {
                QuantFormat::Affine { .. } => (codes, bf16(groups), bf16(groups)),
                _ => (codes, vec![120; groups], vec![]),
            }
        }
    };
    let (dtype, scales, biases) = (FloatType::Bf16, &scales[..], &biases[..]);
    let weights = match format {
        None => LinearWeights::Dense { dtype, bytes: &weight },
        Some(format) => LinearWeights::Quantized { format, weight: &weight, scales, biases, dtype },
    };
    PackedLinear::pack(&[LinearPart { out_features: outputs, weights }], inputs)
}

fn linear(c: &mut Criterion) {
    for (inputs, outputs) in SHAPES {
        for (name, format) in FORMATS {
            let mut copies = Vec::new();
            let mut bytes = 0;
            while copies.is_empty() || bytes + bytes / copies.len() <= WORKING_SET {
                match pack(format, inputs, outputs) {
                    Ok(weights) => {
                        bytes += weights.bytes();
                        copies.push(weights);
                    }
                    Err(error) => panic!("{name}: {error}"),
                }
            }
            let mut group = c.benchmark_group(format!("{inputs}x{outputs}/{name}"));
            group.throughput(Throughput::Bytes(copies[0].bytes() as u64)).sample_size(20);
            let mut scratch = LinearScratch::default();
            for rows in ROWS {
                let x: Vec<f32> = (0..rows * inputs).map(|i| (i * 37 % 101) as f32 / 13.0 - 4.0).collect();
                let mut out = vec![0.0; rows * outputs];
                let mut turn = 0;
                group.bench_function(BenchmarkId::from_parameter(rows), |b| {
                    b.iter(|| {
                        copies[turn % copies.len()].forward(&x, rows, &mut out, &mut scratch);
                        turn += 1;
                    });
                });
            }
            group.finish();
        }
    }
}

criterion_group! { name = benches; config = config(); targets = stream, linear }
criterion_main!(benches);
