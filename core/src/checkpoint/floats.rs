//! Number formats of weights and scales, raised to f32 exactly.

use half::{bf16, f16};
use safetensors::Dtype;

/// Dtypes of weights that are not packed.
pub(super) const FLOATS: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::BF16];

/// The elements of `bytes`, which hold one of [`FLOATS`]; other dtypes give none.
pub(super) fn to_f32(dtype: Dtype, bytes: &[u8]) -> impl Iterator<Item = f32> {
    let width = if FLOATS.contains(&dtype) { dtype.bitsize() / 8 } else { bytes.len() + 1 };
    bytes.chunks_exact(width).map(move |element| match (dtype, element) {
        (Dtype::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f32(),
        (Dtype::BF16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f32(),
        (_, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        _ => f32::NAN,
    })
}

/// A 4-bit float: sign, 2 exponent bits, 1 mantissa bit (OCP microscaling formats, FP4).
pub(super) fn e2m1(code: u32) -> f32 {
    const MAGNITUDES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let magnitude = MAGNITUDES[(code & 7) as usize];
    if code & 8 == 0 { magnitude } else { -magnitude }
}

/// An 8-bit float: sign, 4 exponent bits (bias 7), 3 mantissa bits, no infinity, 0x7F and 0xFF are NaN (OCP OFP8).
pub(super) fn e4m3(code: u32) -> f32 {
    let (exponent, mantissa) = (code >> 3 & 15, code & 7);
    let magnitude = match (exponent, mantissa) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa as f32 * (1.0 / 512.0),
        _ => f32::from_bits((exponent + 120) << 23 | mantissa << 20),
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// A power of two: 2^(code − 127). Code 0 is a subnormal f32; code 255, which no encoder writes, is infinity.
pub(super) fn e8m0(code: u8) -> f32 {
    if code == 0 { f32::from_bits(1 << 22) } else { f32::from_bits(u32::from(code) << 23) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e2m1_has_sixteen_values() {
        let values = (0..16).map(e2m1).collect::<Vec<_>>();
        let positive = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        assert_eq!(values[..8], positive);
        assert_eq!(values[8..], positive.map(|value| -value));
        assert!(values[8].is_sign_negative());
    }

    #[test]
    fn e4m3_follows_its_definition() {
        for code in 0u32..256 {
            let (exponent, mantissa) = (code >> 3 & 15, f64::from(code & 7) / 8.0);
            let magnitude = if exponent == 0 {
                mantissa * 2f64.powi(-6)
            } else {
                (1.0 + mantissa) * 2f64.powi(exponent as i32 - 7)
            };
            let expected = if code & 128 == 0 { magnitude } else { -magnitude };
            if code & 127 == 127 {
                assert!(e4m3(code).is_nan());
            } else {
                assert_eq!(f64::from(e4m3(code)), expected, "code {code}");
            }
        }
        assert_eq!(e4m3(0x7E), 448.0);
    }

    #[test]
    fn e8m0_follows_its_definition() {
        for code in 0..255 {
            assert_eq!(f64::from(e8m0(code)), 2f64.powi(i32::from(code) - 127), "code {code}");
        }
    }

    #[test]
    fn floats_are_read_at_any_alignment() {
        let half = [9, 0, 0x3C, 0, 0xC0];
        assert_eq!(to_f32(Dtype::F16, &half[1..]).collect::<Vec<_>>(), [1.0, -2.0]);
        let brain = [9, 0x80, 0x3F, 0, 0xC0];
        assert_eq!(to_f32(Dtype::BF16, &brain[1..]).collect::<Vec<_>>(), [1.0, -2.0]);
        let single = [9, 0, 0, 0x80, 0x3F];
        assert_eq!(to_f32(Dtype::F32, &single[1..]).collect::<Vec<_>>(), [1.0]);
        assert_eq!(to_f32(Dtype::I32, &single[1..]).count(), 0);
    }
}
