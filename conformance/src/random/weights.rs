//! Random tensors, dense and quantized.

use half::{bf16, f16};
use mlxcel_core::checkpoint::{CheckpointWriter, Dtype, Mode};
use serde_json::{Value, json};

/// Random numbers from a seed (SplitMix64: Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// The numbers of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from 0 to `end` − 1; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next_u64() % end.max(1) as u64) as usize
    }

    /// A number of mean 0 and standard deviation 1, uniform.
    pub fn unit(&mut self) -> f32 {
        let bits = self.next_u64() >> 40;
        (bits as f32 / (1u32 << 23) as f32 - 1.0) * 3f32.sqrt()
    }
}

/// How the matrices of a checkpoint are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// f32
    No,
    /// f16
    Half,
    /// Affine codes of `bits` in groups of `group`. Rows that are no whole number of groups are dense.
    Affine {
        /// 2, 3, 4, 5, 6 or 8.
        bits: usize,
        /// Numbers that share a scale and a bias: 32, 64 or 128.
        group: usize,
    },
    /// Small floats with a scale a group.
    Micro(Mode),
}

impl Packed {
    /// The `quantization` block of a config, if there is one.
    pub fn block(self) -> Option<Value> {
        let (mode, bits, group) = match self {
            Self::No | Self::Half => return None,
            Self::Affine { bits, group } => ("affine", bits, group),
            Self::Micro(Mode::Nvfp4) => ("nvfp4", 4, 16),
            Self::Micro(Mode::Mxfp8) => ("mxfp8", 8, 32),
            Self::Micro(_) => ("mxfp4", 4, 32),
        };
        Some(json!({ "bits": bits, "group_size": group, "mode": mode }))
    }
}

/// Collects random tensors.
#[derive(Clone, Debug)]
pub struct Weights {
    writer: CheckpointWriter,
    numbers: Numbers,
    packed: Packed,
}

impl Weights {
    /// Tensors of `seed`.
    pub fn new(seed: u64, packed: Packed) -> Self {
        Self { writer: CheckpointWriter::new(), numbers: Numbers::new(seed), packed }
    }

    /// The tensors.
    pub fn finish(self) -> CheckpointWriter {
        self.writer
    }

    /// A dense tensor of mean `mean` and deviation `std`.
    pub fn dense(&mut self, name: &str, shape: &[usize], mean: f32, std: f32) {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| mean + std * self.numbers.unit()).collect();
        if self.packed == Packed::Half {
            let bytes: Vec<u8> =
                values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect();
            return self.add(|writer| writer.tensor(name, Dtype::F16, shape, bytes));
        }
        self.add(|writer| writer.f32(name, shape, &values));
    }

    /// The weight of a norm: about 1.
    pub fn norm(&mut self, path: &str, width: usize) {
        self.dense(&format!("{path}.weight"), &[width], 1.0, 0.2);
    }

    /// A bias: about 0.
    pub fn bias(&mut self, path: &str, width: usize) {
        self.dense(&format!("{path}.bias"), &[width], 0.0, 0.2);
    }

    /// A matrix `[out, input]` that maps rows of deviation 1 to rows of deviation `gain`.
    pub fn matrix(&mut self, path: &str, out: usize, input: usize, gain: f32) {
        self.table(path, out, input, gain / (input as f32).sqrt());
    }

    /// A matrix `[out, input]` of deviation `std`, packed if this checkpoint is.
    pub fn table(&mut self, path: &str, out: usize, input: usize, std: f32) {
        match self.packed {
            Packed::Affine { bits, group } if input.is_multiple_of(group) => {
                self.affine(path, [out, input], std, bits, group);
            }
            Packed::Micro(mode) if input.is_multiple_of(32) => self.micro(path, [out, input], std, mode),
            _ => self.dense(&format!("{path}.weight"), &[out, input], 0.0, std),
        }
    }

    /// Random codes of small floats; one scale, a power of two, brings them to about the deviation `std`.
    fn micro(&mut self, path: &str, [out, input]: [usize; 2], std: f32, mode: Mode) {
        let (bits, group) = match mode {
            Mode::Nvfp4 => (4, 16),
            Mode::Mxfp8 => (8, 32),
            _ => (4, 32),
        };
        let code = |numbers: &mut Numbers| match mode {
            // E4M3 of about 1: sign, exponent 2^-1 to 2^1, mantissa. All bits at random would be NaN now and then.
            Mode::Mxfp8 => (numbers.below(2) << 7 | (6 + numbers.below(2)) << 3 | numbers.below(8)) as u8,
            // Two codes of E2M1.
            _ => numbers.below(256) as u8,
        };
        let codes: Vec<u8> = (0..out * input * bits / 8).map(|_| code(&mut self.numbers)).collect();
        let words = input * bits / 32;
        self.add(|writer| writer.tensor(format!("{path}.weight"), Dtype::U32, &[out, words], codes));
        let deviation = if mode == Mode::Mxfp8 { 1.1 } else { 2.9 };
        let exponent = (std / deviation).log2().round() as i32;
        // E4M3 has a bias of 7 and a mantissa of 3 bits, E8M0 a bias of 127.
        let scale = if mode == Mode::Nvfp4 { (exponent + 7).clamp(1, 15) << 3 } else { exponent + 127 };
        let shape = [out, input / group];
        let scales = vec![scale as u8; out * input / group];
        self.add(|writer| writer.tensor(format!("{path}.scales"), Dtype::U8, &shape, scales));
    }

    /// Random codes; scale and bias place them around 0: code c of `bits` means c · scale + bias.
    fn affine(&mut self, path: &str, [out, input]: [usize; 2], std: f32, bits: usize, group: usize) {
        let words = input * bits / 32;
        let codes: Vec<u8> =
            (0..out * words).flat_map(|_| (self.numbers.next_u64() as u32).to_le_bytes()).collect();
        self.add(|writer| writer.tensor(format!("{path}.weight"), Dtype::U32, &[out, words], codes));
        let last = (1u32 << bits) as f32 - 1.0;
        let groups = out * input / group;
        // Uniform codes have a deviation of (2^bits) / √12 steps.
        let scale = std * 12f32.sqrt() / (last + 1.0);
        let scales: Vec<f32> =
            (0..groups).map(|_| bf16::from_f32(scale * (1.0 + 0.1 * self.numbers.unit())).to_f32()).collect();
        let biases: Vec<f32> = scales.iter().map(|scale| -scale * last / 2.0).collect();
        let shape = [out, input / group];
        self.add(|writer| {
            writer.bf16(format!("{path}.scales"), &shape, &scales).bf16(
                format!("{path}.biases"),
                &shape,
                &biases,
            )
        });
    }

    fn add(&mut self, add: impl FnOnce(CheckpointWriter) -> CheckpointWriter) {
        self.writer = add(std::mem::take(&mut self.writer));
    }
}
