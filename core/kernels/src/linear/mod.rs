//! Linear layers: `out = x * weights^T`, quantized or dense, row-exact.
//!
//! Weights are repacked once ([`PackedLinear::pack`]) into blocks of 16 outputs, one memory stream a block,
//! so that a vector lane is an output and no sum crosses lanes. Each format has one numeric path for every
//! row count, prefill included:
//!
//! * affine 2 to 6 and 8 bit, mxfp4, nvfp4: 16-bit activations against integer codes, exact sums per group,
//!   f32 with fma over
//!   groups in order; relative error about 5e-6;
//! * bf16, f16, f32, mxfp8: f32 with fma in one fixed order.
//!
//! A row of activations that holds a NaN or an infinity gives NaN in all its outputs and touches no other
//! row.

mod activations;
mod buffer;
mod codes;
mod dense;
mod dot;
mod format;
mod quantized;
mod register;
#[cfg(test)]
mod tests;
mod walk;
mod weights;

pub use activations::LinearScratch;
pub use format::{FloatType, QuantFormat};
pub use weights::{LinearPart, LinearWeights, PackError};

use crate::Exec;
use crate::simd::{bf16_to_f32, f16_to_f32};
use dense::Dense;
use quantized::Quantized;

/// One or more weight matrices over the same input, joined along their outputs and packed for the kernels.
pub struct PackedLinear {
    storage: Storage,
    in_features: usize,
    out_features: usize,
}

enum Storage {
    Quantized(Quantized),
    Dense(Dense),
}

impl std::fmt::Debug for PackedLinear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PackedLinear([{}, {}], {} bytes)", self.out_features, self.in_features, self.bytes())
    }
}

impl PackedLinear {
    /// Packs `parts` (all in one format), outputs in the order given.
    pub fn pack(parts: &[LinearPart<'_>], in_features: usize) -> Result<PackedLinear, PackError> {
        PackedLinear::pack_with(&Exec::current(), parts, in_features)
    }

    /// [`pack`](PackedLinear::pack) on given threads.
    pub fn pack_with(
        exec: &Exec,
        parts: &[LinearPart<'_>],
        in_features: usize,
    ) -> Result<PackedLinear, PackError> {
        weights::check(parts, in_features)?;
        let storage = match parts[0].weights {
            LinearWeights::Dense { dtype, .. } => {
                Storage::Dense(Dense::pack(exec, parts, dtype, in_features))
            }
            LinearWeights::Quantized { format: QuantFormat::Mxfp8, .. } => {
                Storage::Dense(Dense::pack(exec, parts, FloatType::Bf16, in_features))
            }
            LinearWeights::Quantized { format, .. } => {
                Storage::Quantized(Quantized::pack(exec, parts, format, in_features))
            }
        };
        let out_features = parts.iter().map(|part| part.out_features).sum();
        Ok(PackedLinear { storage, in_features, out_features })
    }

    /// Inputs.
    pub const fn in_features(&self) -> usize {
        self.in_features
    }

    /// Outputs of all parts together.
    pub const fn out_features(&self) -> usize {
        self.out_features
    }

    /// Bytes of the packed weights, padding to 16 outputs included.
    pub fn bytes(&self) -> usize {
        match &self.storage {
            Storage::Quantized(weights) => weights.bytes(),
            Storage::Dense(weights) => weights.bytes(),
        }
    }

    /// `out[r] = weights * x[r]` for each row. `x`: `[rows, in]`, `out`: `[rows, out]`.
    ///
    /// # Panics
    /// If the lengths of `x` and `out` are not `rows` times the features.
    pub fn forward(&self, x: &[f32], rows: usize, out: &mut [f32], scratch: &mut LinearScratch) {
        self.forward_with(&Exec::current(), x, rows, out, scratch);
    }

    /// [`forward`](PackedLinear::forward) on a given instruction set and threads; the result is the same.
    pub fn forward_with(
        &self,
        exec: &Exec,
        x: &[f32],
        rows: usize,
        out: &mut [f32],
        scratch: &mut LinearScratch,
    ) {
        let (inputs, outputs) = (self.in_features, self.out_features);
        assert_eq!(Some(x.len()), rows.checked_mul(inputs), "linear: input is not [{rows}, {inputs}]");
        assert_eq!(Some(out.len()), rows.checked_mul(outputs), "linear: output is not [{rows}, {outputs}]");
        match &self.storage {
            Storage::Quantized(weights) => weights.forward(exec, x, out, scratch),
            Storage::Dense(weights) => weights.forward(exec, x, out),
        }
    }

    /// The weights of one output as f32 (`[in]`): an embedding look-up in a tied head. Dense weights are
    /// exact; quantized ones are `code * scale + bias` with one rounding.
    ///
    /// # Panics
    /// If `index` is not an output or `out` is not `in` long.
    pub fn row(&self, index: usize, out: &mut [f32]) {
        let (inputs, outputs) = (self.in_features, self.out_features);
        assert!(index < outputs, "linear: row {index} of {outputs}");
        assert_eq!(out.len(), inputs, "linear: row buffer is not [{inputs}]");
        match &self.storage {
            Storage::Quantized(weights) => weights.row(index, out),
            Storage::Dense(weights) => weights.row(index, out),
        }
    }
}

/// Finds the matrix and row of a joined output.
struct Rows<'a> {
    parts: &'a [LinearPart<'a>],
}

impl<'a> Rows<'a> {
    fn new(parts: &'a [LinearPart<'a>]) -> Rows<'a> {
        Rows { parts }
    }

    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.out_features).sum()
    }

    /// Part and row of output `index < len()`.
    fn find(&self, mut index: usize) -> (&'a LinearPart<'a>, usize) {
        let mut parts = self.parts.iter();
        loop {
            match parts.next() {
                Some(part) if index < part.out_features => return (part, index),
                Some(part) => index -= part.out_features,
                None => unreachable!("index is below len()"),
            }
        }
    }
}

/// The float at the start of `bytes`, exact.
fn read_float(dtype: FloatType, bytes: &[u8]) -> f32 {
    match dtype {
        FloatType::Bf16 => bf16_to_f32(u16::from_le_bytes([bytes[0], bytes[1]])),
        FloatType::F16 => f16_to_f32(u16::from_le_bytes([bytes[0], bytes[1]])),
        FloatType::F32 => f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
    }
}
