use half::bf16;
use proptest::prelude::*;
use safetensors::Dtype;

use super::super::Packing;
use super::*;

fn quantized<'a>(
    (mode, bits, group): (Mode, usize, usize),
    weight: &'a [u8],
    scales: &'a [u8],
    biases: Option<&'a [u8]>,
) -> Quantized<'a> {
    let packing = Packing::new(mode, bits, group).unwrap();
    let scales_dtype = if mode == Mode::Affine { Dtype::BF16 } else { Dtype::U8 };
    Quantized { out: 1, input: weight.len() * 8 / bits, packing, weight, scales, scales_dtype, biases }
}

fn bf16s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect()
}

/// Codes 0, 1, 2, … (wrapping) at every width, packed by hand.
#[test]
fn codes_are_bits_of_one_little_endian_string() {
    let expect = |bytes: &[u8], bits: usize, count: u32| {
        let expected = (0..count).map(|code| code % (1 << bits)).collect::<Vec<_>>();
        assert_eq!(codes(bytes, bits).collect::<Vec<_>>(), expected, "{bits} bits");
    };
    expect(&[0xE4; 8], 2, 32);
    // 0o76543210 in 24 bits, so that every third word starts inside a code.
    expect(&[0x88, 0xC6, 0xFA].repeat(4), 3, 32);
    expect(&[0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE], 4, 16);
    let five = [
        0x20, 0x88, 0x41, 0x8A, 0x39, 0x28, 0xA9, 0xC5, 0x9A, 0x7B, 0x30, 0xCA, 0x49, 0xAB, 0xBD, 0x38, 0xEB,
        0xCD, 0xBB, 0xFF,
    ];
    expect(&five, 5, 32);
    let six = [0x40, 0x20, 0x0C, 0x44, 0x61, 0x1C, 0x48, 0xA2, 0x2C, 0x4C, 0xE3, 0x3C];
    expect(&six, 6, 16);
    expect(&[0, 1, 2, 3, 4, 5, 6, 7], 8, 8);
}

#[test]
fn affine_is_code_times_scale_plus_bias_per_group() {
    let weight = [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE].repeat(4);
    let (scales, biases) = (bf16s(&[0.5, 2.0]), bf16s(&[-1.0, 10.0]));
    let quantized = quantized((Mode::Affine, 4, 32), &weight, &scales, Some(&biases));
    let expected = (0u8..64).map(|at| {
        let code = f32::from(at % 16);
        if at < 32 { code * 0.5 - 1.0 } else { code * 2.0 + 10.0 }
    });
    assert_eq!(quantized.to_f32(), expected.collect::<Vec<_>>());
}

/// The product is rounded to f32 and not to the dtype of the scale.
#[test]
fn affine_is_not_rounded_to_bf16() {
    let (weight, scale) = ([0xFF; 16], 1.0 + 1.0 / 128.0);
    let (scales, biases) = (bf16s(&[scale]), bf16s(&[1.0 / 256.0]));
    let quantized = quantized((Mode::Affine, 4, 32), &weight, &scales, Some(&biases));
    assert_eq!(quantized.to_f32()[0], 15.0 * scale + 1.0 / 256.0);
    assert_ne!(quantized.to_f32()[0], bf16::from_f32(quantized.to_f32()[0]).to_f32());
}

#[test]
fn microscaling_modes_follow_their_tables() {
    let nibbles = [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE].repeat(2);
    let table = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];
    let times = |scale: f32| table.map(|value| value * scale).to_vec();
    let mxfp4 = quantized((Mode::Mxfp4, 4, 32), &nibbles, &[128], None);
    assert_eq!(mxfp4.to_f32(), [times(2.0), times(2.0)].concat());
    // E4M3: 0x38 = 1, 0x41 = 2.25.
    let nvfp4 = quantized((Mode::Nvfp4, 4, 16), &nibbles, &[0x38, 0x41], None);
    assert_eq!(nvfp4.to_f32(), [times(1.0), times(2.25)].concat());
    let bytes = [0x38, 0xB8, 0x01, 0x7E].repeat(8);
    let mxfp8 = quantized((Mode::Mxfp8, 8, 32), &bytes, &[126], None);
    assert_eq!(mxfp8.to_f32()[..4], [0.5, -0.5, 0.5 / 512.0, 224.0]);
}

#[test]
fn rows_are_those_of_the_whole() {
    let weight = (0..96).collect::<Vec<u8>>();
    let (scales, biases) = (bf16s(&[1.0, 2.0, 3.0]), bf16s(&[4.0, 5.0, 6.0]));
    let mut table = quantized((Mode::Affine, 8, 32), &weight, &scales, Some(&biases));
    (table.out, table.input) = (3, 32);
    let table = LinearTensors::Quantized(table);
    let rows = (0..3).flat_map(|row| table.row(row)).collect::<Vec<_>>();
    assert_eq!(table.to_f32(), rows);
    assert_eq!(table.row(2)[0], 64.0 * 3.0 + 6.0);
    let dense = Dense { out: 2, input: 2, dtype: Dtype::BF16, bytes: &bf16s(&[1.0, 2.0, 3.0, 4.0]) };
    assert_eq!(LinearTensors::Dense(dense).row(1), [3.0, 4.0]);
}

/// Packs codes bit by bit, lowest bit first.
fn pack(codes: &[u32], bits: usize) -> Vec<u8> {
    let string = codes.iter().flat_map(|code| (0..bits).map(move |bit| code >> bit & 1)).collect::<Vec<_>>();
    string.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | *bit as u8)).collect()
}

/// The usual affine encoder: the range of each group in 2^bits − 1 steps.
fn encode(values: &[f32], bits: usize, group: usize) -> (Vec<u8>, Vec<f32>, Vec<f32>) {
    let (mut codes, mut scales, mut biases) = (Vec::new(), Vec::new(), Vec::new());
    for values in values.chunks(group) {
        let low = values.iter().copied().fold(f32::INFINITY, f32::min);
        let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let most = ((1 << bits) - 1) as f32;
        let scale = ((high - low) / most).max(1e-6);
        codes.extend(values.iter().map(|value| ((value - low) / scale).round().clamp(0.0, most) as u32));
        scales.push(scale);
        biases.push(low);
    }
    (pack(&codes, bits), scales, biases)
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn codes_come_back(
        bits in prop::sample::select(vec![2usize, 3, 4, 5, 6, 8]),
        raw in prop::collection::vec(any::<u32>(), 128),
    ) {
        let written = raw.iter().map(|code| code & ((1 << bits) - 1)).collect::<Vec<_>>();
        prop_assert_eq!(codes(&pack(&written, bits), bits).collect::<Vec<_>>(), written);
    }

    #[test]
    fn numbers_come_back_within_half_a_step(
        bits in prop::sample::select(vec![2usize, 3, 4, 5, 6, 8]),
        group in prop::sample::select(vec![32usize, 64, 128]),
        values in prop::collection::vec(-4f32..4.0, 256),
    ) {
        let (weight, scales, biases) = encode(&values, bits, group);
        let (scale_bytes, bias_bytes) = (f32s(&scales), f32s(&biases));
        let mut table = quantized((Mode::Affine, bits, group), &weight, &scale_bytes, Some(&bias_bytes));
        table.scales_dtype = Dtype::F32;
        for (at, (value, decoded)) in values.iter().zip(table.to_f32()).enumerate() {
            let step = scales[at / group];
            prop_assert!((value - decoded).abs() <= step * 0.5001 + 1e-5, "{} {} {}", value, decoded, step);
        }
    }

    #[test]
    fn what_mxfp4_can_hold_comes_back(codes in prop::collection::vec(0u32..16, 64), scales in [100u8..150, 100u8..150]) {
        let table = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        let value = |at: usize| {
            let magnitude = table[codes[at] as usize & 7] * 2f64.powi(i32::from(scales[at / 32]) - 127);
            if codes[at] < 8 { magnitude } else { -magnitude }
        };
        let weight = pack(&codes, 4);
        let decoded = quantized((Mode::Mxfp4, 4, 32), &weight, &scales, None).to_f32();
        for (at, decoded) in decoded.into_iter().enumerate() {
            prop_assert_eq!(f64::from(decoded), value(at));
        }
    }
}
