//! Products against an f64 reference, and bit for bit against each other over rows, instruction sets, threads and joins.

use proptest::prelude::*;

use super::*;
use crate::{Exec, Isa};

/// A checkpoint matrix that owns its bytes, with an independent decoder.
struct Matrix {
    outputs: usize,
    inputs: usize,
    kind: Kind,
    dtype: FloatType,
    weight: Vec<u8>,
    scales: Vec<u8>,
    biases: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Dense,
    Quant(QuantFormat),
}

struct Random(u64);

impl Random {
    fn bits(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 32) as u32
    }
    /// Uniform in -1..1.
    fn unit(&mut self) -> f32 {
        self.bits() as f32 / 2147483648.0 - 1.0
    }
    fn float(&mut self, dtype: FloatType, scale: f32) -> Vec<u8> {
        let v = self.unit() * scale;
        match dtype {
            FloatType::Bf16 => half::bf16::from_f32(v).to_le_bytes().to_vec(),
            FloatType::F16 => half::f16::from_f32(v).to_le_bytes().to_vec(),
            FloatType::F32 => v.to_le_bytes().to_vec(),
        }
    }
    /// `[rows, inputs]` with magnitudes spread over groups, zeros among them.
    fn activations(&mut self, rows: usize, inputs: usize) -> Vec<f32> {
        let value = |i: usize, r: &mut Random| match r.bits() % 8 {
            0 => 0.0,
            1 => r.unit() * 50.0,
            _ => r.unit() * (1.0 + (i / 32 % 3) as f32),
        };
        (0..rows * inputs).map(|i| value(i, self)).collect()
    }
}

impl Matrix {
    fn random(r: &mut Random, outputs: usize, inputs: usize, kind: Kind, dtype: FloatType) -> Matrix {
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

    fn part(&self) -> LinearPart<'_> {
        let (dtype, scales, biases) = (self.dtype, &self.scales[..], &self.biases[..]);
        let weights = match self.kind {
            Kind::Dense => LinearWeights::Dense { dtype, bytes: &self.weight },
            Kind::Quant(format) => {
                LinearWeights::Quantized { format, weight: &self.weight, scales, biases, dtype }
            }
        };
        LinearPart { out_features: self.outputs, weights }
    }

    fn pack(&self) -> PackedLinear {
        PackedLinear::pack(&[self.part()], self.inputs).unwrap()
    }

    fn float(&self, bytes: &[u8], at: usize) -> f32 {
        match self.dtype {
            FloatType::Bf16 => half::bf16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).to_f32(),
            FloatType::F16 => half::f16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]).to_f32(),
            FloatType::F32 => f32::from_le_bytes(bytes[4 * at..][..4].try_into().unwrap()),
        }
    }

    /// Code, scale and bias so that the weight is `code * scale + bias`.
    fn decode(&self, row: usize, k: usize) -> (f32, f32, f32) {
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
    fn reference(&self, x: &[f32], row: usize) -> (f64, f64) {
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

fn bits(v: &[f32]) -> Vec<u32> {
    v.iter().map(|v| v.to_bits()).collect()
}

fn product(weights: &PackedLinear, exec: &Exec, x: &[f32]) -> Vec<f32> {
    let rows = x.len() / weights.in_features();
    // Garbage in, so that an output that is not written shows.
    let mut out = vec![12345.0; rows * weights.out_features()];
    weights.forward_with(exec, x, rows, &mut out, &mut LinearScratch::default());
    out
}

fn kinds() -> Vec<Kind> {
    let affine = [2, 3, 4, 5, 6, 8]
        .into_iter()
        .flat_map(|bits| [32, 64, 128].map(|group| Kind::Quant(QuantFormat::Affine { bits, group })));
    let others = [QuantFormat::Mxfp4, QuantFormat::Nvfp4, QuantFormat::Mxfp8].map(Kind::Quant);
    affine.chain(others).chain([Kind::Dense]).collect()
}

const DTYPES: [FloatType; 3] = [FloatType::Bf16, FloatType::F16, FloatType::F32];

/// Kind, type, outputs, inputs.
fn shapes() -> impl Strategy<Value = (Kind, FloatType, usize, usize)> {
    (proptest::sample::select(kinds()), proptest::sample::select(&DTYPES[..]), 1usize..150, 1usize..5)
        .prop_map(|(kind, dtype, outputs, units)| match kind {
            Kind::Dense => (kind, dtype, outputs, units * 26),
            Kind::Quant(format) => (kind, dtype, outputs, units * format.group()),
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn products_match_an_f64_reference((kind, dtype, outputs, inputs) in shapes(), seed: u64) {
        let mut r = Random(seed);
        let matrix = Matrix::random(&mut r, outputs, inputs, kind, dtype);
        let x = r.activations(2, inputs);
        let out = product(&matrix.pack(), &Exec::current(), &x);
        for (x, out) in x.chunks(inputs).zip(out.chunks(outputs)) {
            for (row, &got) in out.iter().enumerate() {
                let (expected, bound) = matrix.reference(x, row);
                prop_assert!((f64::from(got) - expected).abs() <= bound, "{got} for {expected} +- {bound}");
            }
        }
    }

    #[test]
    fn rows_of_weights_are_dequantized_exactly((kind, dtype, outputs, inputs) in shapes(), seed: u64) {
        let matrix = Matrix::random(&mut Random(seed), outputs, inputs, kind, dtype);
        let packed = matrix.pack();
        let mut out = vec![0.0; inputs];
        for row in 0..outputs {
            packed.row(row, &mut out);
            for (k, got) in out.iter().enumerate() {
                let (code, scale, bias) = matrix.decode(row, k);
                // Zeros may differ in sign: the packed form of -0 is 12 - 12.
                prop_assert_eq!(*got, code.mul_add(scale, bias));
            }
        }
    }

    #[test]
    fn bits_of_a_row_depend_on_nothing_else((kind, dtype, outputs, inputs) in shapes(), seed: u64) {
        let mut r = Random(seed);
        let packed = Matrix::random(&mut r, outputs, inputs, kind, dtype).pack();
        let x = r.activations(17, inputs);
        let one = Exec::new(Isa::Portable, 1);
        let expected: Vec<f32> = x.chunks(inputs).flat_map(|x| product(&packed, &one, x)).collect();
        for isa in Isa::available() {
            for threads in [1, 2] {
                let exec = Exec::new(isa, threads);
                for rows in 1..=17 {
                    let got = product(&packed, &exec, &x[..rows * inputs]);
                    prop_assert_eq!(
                        bits(&got), bits(&expected[..rows * outputs]),
                        "{} rows, {}, {} threads", rows, isa.name(), threads
                    );
                }
            }
        }
    }

    #[test]
    fn joined_matrices_give_the_bits_of_separate_ones(
        (kind, dtype, outputs, inputs) in shapes(), more in 1usize..40, seed: u64
    ) {
        let mut r = Random(seed);
        let matrices = [outputs, more, 16].map(|outputs| Matrix::random(&mut r, outputs, inputs, kind, dtype));
        let x = r.activations(5, inputs);
        let exec = Exec::current();
        let joined = PackedLinear::pack(&matrices.each_ref().map(Matrix::part), inputs).unwrap();
        let joined = product(&joined, &exec, &x);
        let apart = matrices.each_ref().map(|matrix| product(&matrix.pack(), &exec, &x));
        for (row, joined) in joined.chunks(outputs + more + 16).enumerate() {
            let apart: Vec<f32> = matrices.iter().zip(&apart)
                .flat_map(|(matrix, out)| &out[row * matrix.outputs..][..matrix.outputs]).copied().collect();
            prop_assert_eq!(bits(joined), bits(&apart));
        }
    }
}

/// Sizes at which chunks of rows and of blocks split: 512 rows, long rows, many outputs.
#[test]
fn large_products_have_the_bits_of_single_rows() {
    let affine = |bits| Kind::Quant(QuantFormat::Affine { bits, group: 64 });
    let cases = [
        (affine(4), 512, 256, 40),
        (affine(8), 512, 64, 24),
        (Kind::Dense, 512, 128, 24),
        (affine(4), 37, 32768, 17),
        (Kind::Dense, 37, 16384, 17),
        (affine(8), 9, 128, 2100),
        (Kind::Quant(QuantFormat::Nvfp4), 11, 128, 2100),
    ];
    for (kind, rows, inputs, outputs) in cases {
        let mut r = Random(rows as u64);
        let packed = Matrix::random(&mut r, outputs, inputs, kind, FloatType::Bf16).pack();
        let x = r.activations(rows, inputs);
        let fastest = Exec::new(Isa::detect(), 1);
        let expected: Vec<f32> = x.chunks(inputs).flat_map(|x| product(&packed, &fastest, x)).collect();
        for isa in Isa::available() {
            for threads in [1, 2] {
                let got = product(&packed, &Exec::new(isa, threads), &x);
                assert!(
                    bits(&got) == bits(&expected),
                    "{kind:?}, {rows} rows, {}, {threads} threads",
                    isa.name()
                );
            }
        }
    }
}

#[test]
fn a_row_that_is_not_finite_gives_nan_and_leaves_the_others_alone() {
    for kind in kinds() {
        let mut r = Random(7);
        let (inputs, outputs, rows) = (256, 35, 9);
        let packed = Matrix::random(&mut r, outputs, inputs, kind, FloatType::Bf16).pack();
        let clean = r.activations(rows, inputs);
        for isa in Isa::available() {
            let exec = Exec::new(isa, 2);
            let expected = product(&packed, &exec, &clean);
            for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut x = clean.clone();
                x[4 * inputs + 77] = bad;
                let mut wanted = expected.clone();
                wanted[4 * outputs..5 * outputs].fill(f32::NAN);
                assert_eq!(bits(&product(&packed, &exec, &x)), bits(&wanted), "{kind:?} {}", isa.name());
            }
        }
    }
}

#[test]
fn extreme_activations_stay_finite_where_the_result_is() {
    let mut r = Random(3);
    let matrix = Matrix::random(
        &mut r,
        16,
        64,
        Kind::Quant(QuantFormat::Affine { bits: 4, group: 64 }),
        FloatType::F32,
    );
    let packed = matrix.pack();
    // The smallest scale is 2^-120: 64 weights of magnitude below 4, half a unit each.
    let floor = 64.0 * 4.0 * 2f64.powi(-121);
    for scale in [1e-45f32, 1e-38, 1e-30, 1e30, 1e36] {
        let x: Vec<f32> = (0..64).map(|_| r.unit() * scale).collect();
        for (row, got) in product(&packed, &Exec::current(), &x).into_iter().enumerate() {
            let (expected, bound) = matrix.reference(&x, row);
            assert!((f64::from(got) - expected).abs() <= bound + floor, "{got} for {expected}");
        }
    }
}

#[test]
fn unaligned_bytes_are_read() {
    let shifted = |bytes: &[u8]| [&[0xee][..], bytes].concat();
    for kind in [Kind::Dense, Kind::Quant(QuantFormat::Affine { bits: 4, group: 32 })] {
        let matrix = Matrix::random(&mut Random(5), 20, 64, kind, FloatType::F32);
        let mut moved = Matrix {
            weight: shifted(&matrix.weight),
            ..Matrix::random(&mut Random(5), 20, 64, kind, FloatType::F32)
        };
        let weight = std::mem::take(&mut moved.weight);
        let part = |weight| match matrix.part().weights {
            LinearWeights::Dense { dtype, .. } => LinearWeights::Dense { dtype, bytes: weight },
            LinearWeights::Quantized { format, scales, biases, dtype, .. } => {
                LinearWeights::Quantized { format, weight, scales, biases, dtype }
            }
        };
        let part = LinearPart { out_features: 20, weights: part(&weight[1..]) };
        let x = Random(6).activations(3, 64);
        let got = product(&PackedLinear::pack(&[part], 64).unwrap(), &Exec::current(), &x);
        assert_eq!(bits(&got), bits(&product(&matrix.pack(), &Exec::current(), &x)));
    }
}

#[test]
fn zero_rows_are_fine_and_scratch_can_be_shared() {
    let mut r = Random(9);
    let kind = |bits, group| Kind::Quant(QuantFormat::Affine { bits, group });
    let a = Matrix::random(&mut r, 20, 256, kind(4, 64), FloatType::Bf16).pack();
    let b = Matrix::random(&mut r, 33, 64, kind(8, 32), FloatType::F16).pack();
    let mut scratch = LinearScratch::default();
    a.forward(&[], 0, &mut [], &mut scratch);
    for (packed, rows) in [(&a, 5), (&b, 1), (&a, 2), (&b, 9)] {
        let x = r.activations(rows, packed.in_features());
        let mut out = vec![0.0; rows * packed.out_features()];
        packed.forward(&x, rows, &mut out, &mut scratch);
        assert_eq!(bits(&out), bits(&product(packed, &Exec::current(), &x)));
    }
}

#[test]
#[should_panic(expected = "input is not [2, 64]")]
fn a_wrong_input_length_panics_before_anything_is_read() {
    let packed = Matrix::random(&mut Random(1), 16, 64, Kind::Dense, FloatType::F32).pack();
    packed.forward(&[0.0; 127], 2, &mut [0.0; 32], &mut LinearScratch::default());
}

#[test]
fn bad_weights_are_refused_with_the_reason() {
    let error = |parts: &[LinearPart<'_>], inputs| PackedLinear::pack(parts, inputs).unwrap_err().to_string();
    let dense = |out_features, bytes| LinearPart {
        out_features,
        weights: LinearWeights::Dense { dtype: FloatType::Bf16, bytes },
    };
    let quant = |format, weight, scales, biases| LinearPart {
        out_features: 1,
        weights: LinearWeights::Quantized { format, weight, scales, biases, dtype: FloatType::Bf16 },
    };
    let affine = |bits, group| QuantFormat::Affine { bits, group };
    let zeros = [0; 256];
    let bytes = |n: usize| &zeros[..n];
    let cases = [
        (error(&[], 64), "linear: no weights were given, expected at least one matrix"),
        (error(&[dense(0, bytes(0))], 64), "linear: part 0 has shape [0, 64], expected no zero dimension"),
        (error(&[dense(2, bytes(0))], 0), "linear: part 0 has shape [2, 0], expected no zero dimension"),
        (
            error(&[dense(usize::MAX, bytes(8))], 2),
            "linear: part 0 has shape [18446744073709551615, 2], too large to address",
        ),
        (error(&[dense(1, bytes(6))], 3), "linear: 3 inputs, expected an even number for dense weights"),
        (error(&[dense(2, bytes(7))], 2), "linear: weight of part 0 has 7 bytes, expected 8"),
        (
            error(&[quant(affine(4, 64), bytes(16), bytes(1), bytes(1))], 32),
            "linear: 32 inputs, expected a multiple of the group of affine 4 bit, group 64",
        ),
        (
            error(&[quant(affine(7, 64), bytes(56), bytes(2), bytes(2))], 64),
            "linear: unsupported format affine 7 bit, group 64; expected 2, 3, 4, 5, 6 or 8 bit and group 32, 64 or 128",
        ),
        (
            error(&[quant(affine(4, 64), bytes(31), bytes(2), bytes(2))], 64),
            "linear: weight of part 0 has 31 bytes, expected 32",
        ),
        (
            error(&[quant(affine(4, 64), bytes(32), bytes(4), bytes(2))], 64),
            "linear: scales of part 0 has 4 bytes, expected 2",
        ),
        (
            error(&[quant(QuantFormat::Mxfp4, bytes(16), bytes(1), bytes(2))], 32),
            "linear: biases of part 0 has 2 bytes, expected 0",
        ),
        (
            error(&[dense(1, bytes(64)), quant(affine(4, 32), bytes(16), bytes(2), bytes(2))], 32),
            "linear: part 1 is affine 4 bit, group 32, bf16 scales, expected dense bf16 as in part 0; pack them apart",
        ),
    ];
    for (got, expected) in cases {
        assert_eq!(got, expected);
    }
}
