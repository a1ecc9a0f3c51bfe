//! Random weights, dense and quantized.

use mlxcel_core::checkpoint::{CheckpointWriter, Dtype};
use serde_json::{Value, json};

/// Numbers that share a scale and a bias.
const GROUP: usize = 64;

/// Random weights of one precision, and the writer that takes them.
pub(super) struct Random {
    writer: CheckpointWriter,
    state: u64,
    bits: usize,
}

impl Random {
    /// Weights of `seed`: dense (16) or affine codes (4 or 8 bits).
    pub(super) fn new(writer: CheckpointWriter, seed: u64, bits: usize) -> Self {
        Self { writer, state: seed, bits }
    }

    pub(super) fn finish(self) -> CheckpointWriter {
        self.writer
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Values around 0 of about this deviation.
    pub(super) fn values(&mut self, count: usize, deviation: f32) -> Vec<f32> {
        let range = deviation * 3f32.sqrt();
        (0..count).map(|_| ((self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * range).collect()
    }

    pub(super) fn add(&mut self, change: impl FnOnce(CheckpointWriter) -> CheckpointWriter) {
        self.writer = change(std::mem::take(&mut self.writer));
    }

    /// A matrix `[out, input]` whose outputs have about the deviation of its inputs.
    pub(super) fn matrix(&mut self, path: &str, out: usize, input: usize) {
        let deviation = (input as f32).powf(-0.5);
        if self.bits == 16 {
            let values = self.values(out * input, deviation);
            self.add(|writer| writer.bf16(format!("{path}.weight"), &[out, input], &values));
            return;
        }
        let words = input * self.bits / 32;
        let codes: Vec<u8> = (0..out * words / 2).flat_map(|_| self.next().to_le_bytes()).collect();
        // Codes are spread evenly over 0..2^bits: scale and bias centre them and give the deviation.
        let levels = (1 << self.bits) as f32;
        let scale = deviation * 12f32.sqrt() / levels;
        let groups = [out, input / GROUP];
        let count = out * input / GROUP;
        let (scales, biases) = (vec![scale; count], vec![-scale * (levels - 1.0) / 2.0; count]);
        self.add(|writer| {
            writer
                .tensor(format!("{path}.weight"), Dtype::U32, &[out, words], codes)
                .bf16(format!("{path}.scales"), &groups, &scales)
                .bf16(format!("{path}.biases"), &groups, &biases)
        });
    }

    pub(super) fn norm(&mut self, path: &str, width: usize) {
        self.add(|writer| writer.bf16(format!("{path}.weight"), &[width], &vec![1.0; width]));
    }
}

/// The config of a checkpoint of this precision.
pub(super) fn with_quantization(mut config: Value, bits: usize) -> Value {
    if bits < 16 {
        config["quantization"] = json!({ "bits": bits, "group_size": GROUP, "mode": "affine" });
    }
    config
}
