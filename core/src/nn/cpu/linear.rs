//! Linear layers over packed weights.

use std::{cell::RefCell, sync::Arc};

use mlxcel_kernels::{
    Exec,
    linear::{FloatType, LinearPart, LinearScratch, LinearWeights, PackError, PackedLinear, QuantFormat},
};

use super::Rows;
use crate::{
    Error, Result,
    checkpoint::{Dtype, LinearTensors, Mode, Packing},
};

thread_local! {
    static SCRATCH: RefCell<LinearScratch> = RefCell::new(LinearScratch::default());
}

/// Packed weights. Cloning shares them.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    /// More than one where the joined matrices are stored in different formats.
    parts: Arc<[PackedLinear]>,
}

impl Linear {
    /// Packs matrices with `input` inputs, joined along their outputs.
    pub(crate) fn pack(matrices: &[LinearTensors<'_>], input: usize) -> Result<Self> {
        let parts: Vec<LinearPart<'_>> = matrices.iter().map(part).collect::<Result<_>>()?;
        let packed = match PackedLinear::pack(&parts, input) {
            Ok(packed) => vec![packed],
            Err(PackError::Mixed { .. }) => {
                parts.iter().map(|part| PackedLinear::pack(&[*part], input)).collect::<Result<_, _>>()?
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { parts: packed.into() })
    }

    /// Inputs of a row.
    pub(crate) fn in_features(&self) -> usize {
        self.parts[0].in_features()
    }

    /// Outputs of a row.
    pub(crate) fn out_features(&self) -> usize {
        self.parts.iter().map(PackedLinear::out_features).sum()
    }

    /// `[rows, in]` to `[rows, out]`.
    pub(crate) fn forward(&self, x: &Rows) -> Result<Rows> {
        let outputs: Vec<Rows> = self.parts.iter().map(|part| product(part, x)).collect();
        match outputs.as_slice() {
            [only] => Ok(only.clone()),
            several => super::concat_features(&several.iter().collect::<Vec<_>>()),
        }
    }

    /// The weights of output `index`, `[in]`.
    pub(crate) fn row(&self, mut index: usize, out: &mut [f32]) -> Result<()> {
        for part in self.parts.iter() {
            if index < part.out_features() {
                part.row(index, out);
                return Ok(());
            }
            index -= part.out_features();
        }
        Err(Error::shape("row of a table", index, 0))
    }
}

fn product(weights: &PackedLinear, x: &Rows) -> Rows {
    Rows::build(x.rows(), weights.out_features(), |out| {
        SCRATCH.with_borrow_mut(|scratch| {
            weights.forward_with(&Exec::current(), x.values(), x.rows(), out, scratch);
        });
    })
}

/// A checkpoint's tensors as the kernels take them.
fn part<'a>(tensors: &LinearTensors<'a>) -> Result<LinearPart<'a>> {
    Ok(match *tensors {
        LinearTensors::Dense(dense) => LinearPart {
            out_features: dense.out,
            weights: LinearWeights::Dense { dtype: float(dense.dtype)?, bytes: dense.bytes },
        },
        LinearTensors::Quantized(quantized) => LinearPart {
            out_features: quantized.out,
            weights: LinearWeights::Quantized {
                format: format(quantized.packing),
                weight: quantized.weight,
                scales: quantized.scales,
                biases: quantized.biases.unwrap_or(&[]),
                // Formats other than affine have byte scales, and the kernels ignore the type.
                dtype: float(quantized.scales_dtype).unwrap_or(FloatType::F32),
            },
        },
    })
}

fn float(dtype: Dtype) -> Result<FloatType> {
    match dtype {
        Dtype::BF16 => Ok(FloatType::Bf16),
        Dtype::F16 => Ok(FloatType::F16),
        Dtype::F32 => Ok(FloatType::F32),
        other => Err(Error::Dtype { found: other.to_string() }),
    }
}

fn format(packing: Packing) -> QuantFormat {
    match packing.mode {
        Mode::Affine => QuantFormat::Affine { bits: packing.bits, group: packing.group },
        Mode::Mxfp4 => QuantFormat::Mxfp4,
        Mode::Mxfp8 => QuantFormat::Mxfp8,
        Mode::Nvfp4 => QuantFormat::Nvfp4,
    }
}
