//! Products against an f64 reference, and bit for bit against each other over rows, instruction sets, threads
//! and joins.

mod matrix;

use proptest::prelude::*;

use super::*;
use crate::{Exec, Isa};
use matrix::{Kind, Matrix, Random};

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
        let mut random = |outputs| Matrix::random(&mut r, outputs, inputs, kind, dtype);
        let matrices = [random(outputs), random(more), random(16)];
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

/// A NaN weight has bits of its own; the row's NaN must win.
#[test]
fn a_row_that_is_not_finite_gives_one_nan_whatever_the_weights() {
    let kind = Kind::Quant(QuantFormat::Affine { bits: 8, group: 32 });
    let mut matrix = Matrix::random(&mut Random(11), 16, 32, kind, FloatType::F32);
    for row in 0..8 {
        matrix.scales[4 * row..][..4].copy_from_slice(&0xffc0_1234_u32.to_le_bytes());
    }
    let packed = matrix.pack();
    for isa in Isa::available() {
        let out = product(&packed, &Exec::new(isa, 1), &[f32::NAN; 32]);
        assert_eq!(bits(&out), bits(&[f32::NAN; 16]), "{}", isa.name());
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
    for kind in [Kind::Dense, Kind::Quant(QuantFormat::Affine { bits: 4, group: 32 })] {
        let matrix = Matrix::random(&mut Random(5), 20, 64, kind, FloatType::F32);
        let shifted = [&[0xee][..], &matrix.weight].concat();
        let mut part = matrix.part();
        match &mut part.weights {
            LinearWeights::Dense { bytes, .. } => *bytes = &shifted[1..],
            LinearWeights::Quantized { weight, .. } => *weight = &shifted[1..],
        }
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
