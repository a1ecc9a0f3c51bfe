//! The tensors of one linear layer or embedding table, dense or quantized, checked against the architecture.
//!
//! A quantized module `P` is stored as `P.weight` (u32 `[out, in · bits / 32]`), `P.scales` (`[out, in / group]`) and,
//! for affine, `P.biases` (like the scales). An additive bias is another tensor, `P.bias`.

use safetensors::Dtype;

use super::floats::FLOATS;
use super::quantization::{Packing, Rule, WORD};
use super::tensor::TensorView;
use super::{Checkpoint, Mode, Result};

/// The weight of a linear layer, or of an embedding table with `out` rows.
#[derive(Clone, Copy, Debug)]
pub enum LinearTensors<'a> {
    /// Stored as floats.
    Dense(Dense<'a>),
    /// Stored as packed codes.
    Quantized(Quantized<'a>),
}

/// A weight stored as floats, `[out, input]` row-major.
#[derive(Clone, Copy, Debug)]
pub struct Dense<'a> {
    /// Rows.
    pub out: usize,
    /// Columns.
    pub input: usize,
    /// f32, f16 or bf16.
    pub dtype: Dtype,
    /// The elements, little-endian, at any alignment.
    pub bytes: &'a [u8],
}

/// A weight stored as packed codes: `[out, input]` numbers in row-major rows of whole u32 words.
#[derive(Clone, Copy, Debug)]
pub struct Quantized<'a> {
    /// Rows.
    pub out: usize,
    /// Numbers in a row.
    pub input: usize,
    /// Mode, bits and group.
    pub packing: Packing,
    /// u32 `[out, input · bits / 32]`: each row is one little-endian string of codes.
    pub weight: &'a [u8],
    /// `[out, input / group]`.
    pub scales: &'a [u8],
    /// f32, f16 or bf16 for affine, u8 for the others (E8M0 for mxfp4 and mxfp8, E4M3 for nvfp4).
    pub scales_dtype: Dtype,
    /// `[out, input / group]` of the scales' dtype; for affine only.
    pub biases: Option<&'a [u8]>,
}

impl<'a> LinearTensors<'a> {
    /// The bytes of all its tensors.
    fn parts(&self) -> [&'a [u8]; 3] {
        match *self {
            Self::Dense(Dense { bytes, .. }) => [bytes, &[], &[]],
            Self::Quantized(Quantized { weight, scales, biases, .. }) => {
                [weight, scales, biases.unwrap_or_default()]
            }
        }
    }
}

impl Checkpoint {
    /// Gives the memory of mapped tensors back to the system, once they have been copied to where they are used: a model
    /// that has been loaded keeps no page of its files. They can still be read.
    pub fn release(&self, tensors: &LinearTensors<'_>) {
        for part in tensors.parts() {
            self.files.iter().for_each(|file| file.release(part));
        }
    }

    /// The weight of module `path`, which maps `input` numbers to `out` (an embedding: `out` rows of `input`).
    ///
    /// # Errors
    /// The tensor that is missing, or whose dtype or shape does not fit, by name.
    pub fn linear(&self, path: &str, out: usize, input: usize) -> Result<LinearTensors<'_>> {
        let scales = format!("{path}.scales");
        let packing = match self.quantization.rule(path) {
            // A row that is no whole number of groups is never quantized, whatever the block says.
            Rule::Packed(packing) => input.is_multiple_of(packing.group).then_some(packing),
            Rule::Inferred if self.contains(&scales) => Some(self.inferred(path, &scales, input)?),
            Rule::Dense | Rule::Inferred => None,
        };
        match packing {
            None => self.dense(path, out, input).map(LinearTensors::Dense),
            Some(packing) => self.quantized(path, out, input, packing).map(LinearTensors::Quantized),
        }
    }

    fn dense(&self, path: &str, out: usize, input: usize) -> Result<Dense<'_>> {
        let weight = self.tensor(&format!("{path}.weight"))?;
        let scales = format!("{path}.scales");
        if weight.dtype == Dtype::U32 && !self.contains(&scales) {
            return Err(self.missing(&scales, &format!("the packed {}", weight.name)));
        }
        let weight = weight.expect_float()?.expect_shape(&[out, input])?;
        Ok(Dense { out, input, dtype: weight.dtype, bytes: weight.bytes })
    }

    fn quantized(&self, path: &str, out: usize, input: usize, packing: Packing) -> Result<Quantized<'_>> {
        let needed_for = format!("{path} ({packing})");
        let part = |name: &str| self.tensor_for(&format!("{path}.{name}"), &needed_for);
        let weight =
            part("weight")?.expect_dtype(&[Dtype::U32])?.expect_shape(&[out, packing.words(input)])?;
        let groups = [out, input / packing.group];
        let scales = match packing.mode {
            Mode::Affine => part("scales")?.expect_float()?,
            Mode::Mxfp4 | Mode::Mxfp8 | Mode::Nvfp4 => part("scales")?.expect_dtype(&[Dtype::U8])?,
        }
        .expect_shape(&groups)?;
        let biases = match packing.mode {
            Mode::Affine => Some(part("biases")?.expect_dtype(&[scales.dtype])?.expect_shape(&groups)?.bytes),
            Mode::Mxfp4 | Mode::Mxfp8 | Mode::Nvfp4 => None,
        };
        Ok(Quantized {
            out,
            input,
            packing,
            weight: weight.bytes,
            scales: scales.bytes,
            scales_dtype: scales.dtype,
            biases,
        })
    }

    /// The packing that the shapes of the file imply.
    fn inferred(&self, path: &str, scales: &str, input: usize) -> Result<Packing> {
        let weight = self.tensor(&format!("{path}.weight"))?;
        let scales =
            self.tensor_for(scales, path)?.expect_dtype(&[FLOATS.as_slice(), &[Dtype::U8]].concat())?;
        let columns = |view: &TensorView<'_>| match *view.shape {
            [_, columns] => Ok(columns),
            _ => Err(view.refuse(format!("shape {:?}", view.shape), "two axes")),
        };
        let (words, groups) = (columns(&weight.expect_dtype(&[Dtype::U32])?)?, columns(&scales)?);
        Packing::infer(input, words, groups, scales.dtype == Dtype::U8).ok_or_else(|| {
            weight.refuse(
                format!("{words} words of {WORD} bits and {groups} {} scales a row", scales.dtype),
                format!("a packing that MLX knows, for rows of {input}"),
            )
        })
    }
}

#[cfg(test)]
mod tests;
