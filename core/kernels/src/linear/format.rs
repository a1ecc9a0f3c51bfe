//! Number formats of linear weights as checkpoints store them.

use std::fmt;

/// A floating-point storage type; values are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FloatType {
    /// bfloat16.
    Bf16,
    /// IEEE binary16.
    F16,
    /// IEEE binary32.
    F32,
}

impl FloatType {
    /// Bytes of a value.
    pub const fn size(self) -> usize {
        match self {
            FloatType::Bf16 | FloatType::F16 => 2,
            FloatType::F32 => 4,
        }
    }
}

impl fmt::Display for FloatType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FloatType::Bf16 => "bf16",
            FloatType::F16 => "f16",
            FloatType::F32 => "f32",
        })
    }
}

/// MLX's quantization modes. A row is one little-endian bit string, code `i` at bits `[i * bits, (i + 1) *
/// bits)`; every `group` consecutive codes of a row share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantFormat {
    /// `code * scale + bias`; codes are unsigned, scales and biases are floats.
    Affine {
        /// 2, 3, 4, 5, 6 or 8.
        bits: usize,
        /// 32, 64 or 128.
        group: usize,
    },
    /// `e2m1(code) * 2^(scale - 127)`, group 32, scales are E8M0 bytes (OCP Microscaling Formats 1.0).
    Mxfp4,
    /// `e2m1(code) * e4m3(scale)`, group 16, scales are E4M3 bytes.
    Nvfp4,
    /// `e4m3(code) * 2^(scale - 127)`, group 32, scales are E8M0 bytes (OCP Microscaling Formats 1.0).
    Mxfp8,
}

impl QuantFormat {
    /// Bits of a code.
    pub const fn bits(self) -> usize {
        match self {
            QuantFormat::Affine { bits, .. } => bits,
            QuantFormat::Mxfp4 | QuantFormat::Nvfp4 => 4,
            QuantFormat::Mxfp8 => 8,
        }
    }

    /// Inputs that share a scale.
    pub const fn group(self) -> usize {
        match self {
            QuantFormat::Affine { group, .. } => group,
            QuantFormat::Mxfp4 | QuantFormat::Mxfp8 => 32,
            QuantFormat::Nvfp4 => 16,
        }
    }

    /// Whether bits and group are among those MLX writes.
    pub const fn is_supported(self) -> bool {
        match self {
            QuantFormat::Affine { bits, group } => {
                matches!(bits, 2..=6 | 8) && matches!(group, 32 | 64 | 128)
            }
            _ => true,
        }
    }
}

impl fmt::Display for QuantFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuantFormat::Affine { bits, group } => write!(f, "affine {bits} bit, group {group}"),
            QuantFormat::Mxfp4 => f.write_str("mxfp4"),
            QuantFormat::Nvfp4 => f.write_str("nvfp4"),
            QuantFormat::Mxfp8 => f.write_str("mxfp8"),
        }
    }
}

/// `2 * e2m1(code)`, an integer, for the 16 codes.
pub(super) const E2M1_DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// E4M3 (bias 7, no infinities, `0x7f` and `0xff` NaN), exact.
pub(super) fn e4m3(code: u8) -> f32 {
    let (exponent, fraction) = ((code >> 3) & 15, code & 7);
    let magnitude = match (exponent, fraction) {
        (15, 7) => f32::NAN,
        (0, _) => f32::from(fraction) / 512.0,
        _ => f32::from_bits(((u32::from(exponent) + 120) << 23) | (u32::from(fraction) << 20)),
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// E8M0: `2^(code - 127)`, subnormal for 0, NaN for 255.
pub(super) fn e8m0(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(code) << 23),
    }
}
