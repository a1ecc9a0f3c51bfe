//! Random checkpoint matrices with a decoder and a product that share no code with the kernels.

use crate::linear::{FloatType, LinearPart, LinearWeights, PackedLinear, QuantFormat};

/// A checkpoint matrix that owns its bytes, with an independent decoder.
pub(super) struct Matrix {
    pub(super) outputs: usize,
    inputs: usize,
    kind: Kind,
    dtype: FloatType,
    pub(super) weight: Vec<u8>,
    pub(super) scales: Vec<u8>,
    biases: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Dense,
    Quant(QuantFormat),
}

pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 32) as u32
    }
    /// Uniform in -1..1.
    pub(super) fn unit(&mut self) -> f32 {
        self.bits() as f32 / 2147483648.0 - 1.0
    }
    pub(super) fn float(&mut self, dtype: FloatType, scale: f32) -> Vec<u8> {
        let v = self.unit() * scale;
        match dtype {
            FloatType::Bf16 => half::bf16::from_f32(v).to_le_bytes().to_vec(),
            FloatType::F16 => half::f16::from_f32(v).to_le_bytes().to_vec(),
            FloatType::F32 => v.to_le_bytes().to_vec(),
        }
    }
    /// `[rows, inputs]` with magnitudes spread over groups, zeros among them.
    pub(super) fn activations(&mut self, rows: usize, inputs: usize) -> Vec<f32> {
        let value = |i: usize, r: &mut Random| match r.bits() % 8 {
            0 => 0.0,
            1 => r.unit() * 50.0,
            _ => r.unit() * (1.0 + (i / 32 % 3) as f32),
        };
        (0..rows * inputs).map(|i| value(i, self)).collect()
    }
}

impl Matrix {
    pub(super) fn random(
        r: &mut Random,
        outputs: usize,
        inputs: usize,
        kind: Kind,
        dtype: FloatType,
    ) -> Matrix {
        let floats =
            |r: &mut Random, n: usize, scale: f32| (0..n).flat_map(|_| r.float(dtype, scale)).collect();
        let (weight, scales, biases) = match kind {
            Kind::Dense => (floats(r, outputs * inputs, 1.0), vec![], vec![]),
            Kind::Quant(format) => {
                let weight = (0..outputs * inputs * format.bits() / 8).map(|_| r.bits() as u8).collect();
                let groups = outputs * inputs / format.group();
                match format {
                    QuantFormat::Affine { .. } => (weight, floats(r, groups, 0.1), floats(r, groups, 0.5)),
                    QuantFormat::Nvfp4 => {
                        (weight, (0..groups).map(|_| (r.bits() % 0x60) as u8).collect(), vec![])
                    }
                    _ => (weight, (0..groups).map(|_| 110 + (r.bits() % 20) as u8).collect(), vec![]),
                }
            }
        };
        // 0x7f and 0xff are E4M3's NaN.
        let weight = weight_without_nan(kind, weight);
        Matrix { outputs, inputs, kind, dtype, weight, scales, biases }
    }

    pub(super) fn part(&self) -> LinearPart<'_> {
        let (dtype, scales, biases) = (self.dtype, &self.scales[..], &self.biases[..]);
        let weights = match self.kind {
            Kind::Dense => LinearWeights::Dense { dtype, bytes: &self.weight },
            Kind::Quant(format) => {
                LinearWeights::Quantized { format, weight: &self.weight, scales, biases, dtype }
            }
        };
        LinearPart { out_features: self.outputs, weights }
    }

    pub(super) fn pack(&self) -> PackedLinear {
        PackedLinear::pack(&[self.part()], self.inputs).unwrap()
    }

    pub(super) fn float(&self, bytes: &[u8], at: usize) -> f32 {
        match self.dtype {
            FloatType::Bf16 => half::bf16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).to_f32(),
            FloatType::F16 => half::f16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).to_f32(),
            FloatType::F32 => f32::from_le_bytes(bytes[4 * at..][..4].try_into().unwrap()),
        }
    }

    /// Code, scale and bias so that the weight is `code * scale + bias`.
    pub(super) fn decode(&self, row: usize, k: usize) -> (f32, f32, f32) {
        let at = row * self.inputs + k;
        let Kind::Quant(format) = self.kind else { return (self.float(&self.weight, at), 1.0, 0.0) };
        let code = (0..format.bits()).fold(0, |code, bit| {
            let position = at * format.bits() + bit;
            code | (u32::from(self.weight[position / 8]) >> (position % 8) & 1) << bit
        });
        let group = at / format.group();
        let e2m1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][code as usize % 8]
            * if code & 8 == 0 { 1.0 } else { -1.0 };
        let e4m3 = |code: u32| {
            let (exponent, fraction) = ((code >> 3 & 15) as i32, (code & 7) as f32);
            let sign = if code & 128 == 0 { 1.0 } else { -1.0 };
            sign * if exponent == 0 {
                fraction / 512.0
            } else {
                (1.0 + fraction / 8.0) * 2f32.powi(exponent - 7)
            }
        };
        let power = |code: u8| 2f32.powi(i32::from(code) - 127);
        match format {
            QuantFormat::Affine { .. } => {
                (code as f32, self.float(&self.scales, group), self.float(&self.biases, group))
            }
            QuantFormat::Mxfp4 => (e2m1, power(self.scales[group]), 0.0),
            QuantFormat::Nvfp4 => (e2m1, e4m3(u32::from(self.scales[group])), 0.0),
            QuantFormat::Mxfp8 => (e4m3(code), power(self.scales[group]), 0.0),
        }
    }

    /// Product and error bound of one output in f64.
    pub(super) fn reference(&self, x: &[f32], row: usize) -> (f64, f64) {
        let (mut sum, mut magnitude) = (0.0, 0.0);
        let greatest = x.iter().fold(0f64, |max, &v| max.max(f64::from(v).abs()));
        for (k, &x) in x.iter().enumerate() {
            let (code, scale, bias) = self.decode(row, k);
            let (product, bias) = (f64::from(code) * f64::from(scale), f64::from(bias));
            sum += (product + bias) * f64::from(x);
            // E2M1 is computed as (biased code - 12) * scale / 2.
            magnitude += (product.abs() + bias.abs() + 6.0 * f64::from(scale).abs()) * greatest;
        }
        (sum, magnitude * 1e-5)
    }
}

fn weight_without_nan(kind: Kind, weight: Vec<u8>) -> Vec<u8> {
    if kind != Kind::Quant(QuantFormat::Mxfp8) {
        return weight;
    }
    weight.into_iter().map(|code| if code & 0x7f == 0x7f { 0 } else { code }).collect()
}
