//! Borrowed checkpoint weights of a linear layer, checked before anything reads them.

use super::format::{FloatType, QuantFormat};

/// A weight matrix `[out, in]` as a checkpoint stores it. Bytes need no alignment (memory maps).
#[derive(Clone, Copy, Debug)]
pub enum LinearWeights<'a> {
    /// One float per weight, row-major.
    Dense {
        /// Type of a weight.
        dtype: FloatType,
        /// `[out, in]`.
        bytes: &'a [u8],
    },
    /// Packed codes with a scale per group.
    Quantized {
        /// How codes become numbers.
        format: QuantFormat,
        /// Codes, `[out, in * bits / 8]`.
        weight: &'a [u8],
        /// `[out, in / group]`: floats of type `dtype` (affine) or bytes (the other formats).
        scales: &'a [u8],
        /// `[out, in / group]` floats of type `dtype` (affine); empty for the other formats.
        biases: &'a [u8],
        /// Type of affine scales and biases; the other formats ignore it.
        dtype: FloatType,
    },
}

/// One of the matrices that [`PackedLinear::pack`](super::PackedLinear::pack) joins.
#[derive(Clone, Copy, Debug)]
pub struct LinearPart<'a> {
    /// Outputs (rows of the matrix).
    pub out_features: usize,
    /// Its weights.
    pub weights: LinearWeights<'a>,
}

/// Weights that cannot be packed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// Nothing to pack.
    #[error("linear: no weights were given, expected at least one matrix")]
    NoParts,
    /// A dimension is zero.
    #[error("linear: part {part} has shape [{out_features}, {in_features}], expected no zero dimension")]
    Empty {
        /// Index of the part.
        part: usize,
        /// Its outputs.
        out_features: usize,
        /// Its inputs.
        in_features: usize,
    },
    /// The shape times the element size does not fit in memory.
    #[error("linear: part {part} has shape [{out_features}, {in_features}], too large to address")]
    TooLarge {
        /// Index of the part.
        part: usize,
        /// Its outputs.
        out_features: usize,
        /// Its inputs.
        in_features: usize,
    },
    /// Dense weights need an even number of inputs.
    #[error("linear: {0} inputs, expected an even number for dense weights")]
    OddInputs(usize),
    /// A group would straddle two rows.
    #[error("linear: {in_features} inputs, expected a multiple of the group of {format}")]
    PartialGroup {
        /// Inputs.
        in_features: usize,
        /// The format.
        format: QuantFormat,
    },
    /// Bits or group that MLX does not write.
    #[error("linear: unsupported format {0}; expected 2, 3, 4, 5, 6 or 8 bit and group 32, 64 or 128")]
    Unsupported(QuantFormat),
    /// A tensor has the wrong number of bytes.
    #[error("linear: {tensor} of part {part} has {found} bytes, expected {expected}")]
    Bytes {
        /// `weight`, `scales` or `biases`.
        tensor: &'static str,
        /// Index of the part.
        part: usize,
        /// Its bytes.
        found: usize,
        /// Bytes its shape asks for.
        expected: usize,
    },
    /// Matrices to be joined are stored differently.
    #[error("linear: part {part} is {found}, expected {expected} as in part 0; pack them apart")]
    Mixed {
        /// Index of the part.
        part: usize,
        /// Its storage.
        found: String,
        /// Storage of the first part.
        expected: String,
    },
}

impl LinearWeights<'_> {
    /// Storage in words; equal if and only if two matrices can be joined.
    pub(super) fn describe(&self) -> String {
        match self {
            LinearWeights::Dense { dtype, .. } => format!("dense {dtype}"),
            LinearWeights::Quantized { format: format @ QuantFormat::Affine { .. }, dtype, .. } => {
                format!("{format}, {dtype} scales")
            }
            LinearWeights::Quantized { format, .. } => format.to_string(),
        }
    }
}

/// Checks shapes, formats and lengths of all parts; afterwards every row of every tensor can be sliced.
pub(super) fn check(parts: &[LinearPart<'_>], in_features: usize) -> Result<(), PackError> {
    let first = parts.first().ok_or(PackError::NoParts)?;
    for (part, LinearPart { out_features, weights }) in parts.iter().enumerate() {
        let out_features = *out_features;
        if out_features == 0 || in_features == 0 {
            return Err(PackError::Empty { part, out_features, in_features });
        }
        // Packing pads to 16 outputs and uses at most 4 bytes a weight.
        let padded = parts.iter().try_fold(16usize, |sum, p| sum.checked_add(p.out_features));
        if padded.and_then(|n| n.checked_mul(in_features)).and_then(|n| n.checked_mul(8)).is_none() {
            return Err(PackError::TooLarge { part, out_features, in_features });
        }
        if weights.describe() != first.weights.describe() {
            let (found, expected) = (weights.describe(), first.weights.describe());
            return Err(PackError::Mixed { part, found, expected });
        }
        let bytes = |tensor, data: &[u8], row: usize| {
            let (found, expected) = (data.len(), out_features * row);
            if found == expected { Ok(()) } else { Err(PackError::Bytes { tensor, part, found, expected }) }
        };
        match *weights {
            LinearWeights::Dense { dtype, bytes: data } => {
                if in_features % 2 == 1 {
                    return Err(PackError::OddInputs(in_features));
                }
                bytes("weight", data, in_features * dtype.size())?;
            }
            LinearWeights::Quantized { format, weight, scales, biases, dtype } => {
                if !format.is_supported() {
                    return Err(PackError::Unsupported(format));
                }
                if !in_features.is_multiple_of(format.group()) {
                    return Err(PackError::PartialGroup { in_features, format });
                }
                let groups = in_features / format.group();
                let affine = matches!(format, QuantFormat::Affine { .. });
                bytes("weight", weight, in_features * format.bits() / 8)?;
                bytes("scales", scales, if affine { groups * dtype.size() } else { groups })?;
                bytes("biases", biases, if affine { groups * dtype.size() } else { 0 })?;
            }
        }
    }
    Ok(())
}
