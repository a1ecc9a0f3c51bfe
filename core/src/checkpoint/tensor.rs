//! One tensor of a checkpoint.

use safetensors::Dtype;

use super::{CheckpointError, Result, floats};

/// A tensor as it lies in its file: row-major, little-endian, **not aligned** to its element size.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    /// Its name, after renaming.
    pub name: &'a str,
    /// The file that holds it.
    pub file: &'a str,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Its axes, outermost first; each fits an i32.
    pub shape: &'a [usize],
    /// Its elements.
    pub bytes: &'a [u8],
}

impl TensorView<'_> {
    /// This tensor, if it has exactly `shape`.
    pub fn expect_shape(self, shape: &[usize]) -> Result<Self> {
        if self.shape == shape {
            return Ok(self);
        }
        Err(self.refuse(format!("shape {:?}", self.shape), format!("{shape:?}")))
    }

    /// This tensor, if its elements are f32, f16 or bf16.
    pub fn expect_float(self) -> Result<Self> {
        self.expect_dtype(&floats::FLOATS)
    }

    /// This tensor, if its elements are of one of `dtypes`.
    pub fn expect_dtype(self, dtypes: &[Dtype]) -> Result<Self> {
        if dtypes.contains(&self.dtype) {
            return Ok(self);
        }
        let expected = dtypes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        Err(self.refuse(format!("dtype {}", self.dtype), expected))
    }

    /// The elements of a float tensor, raised to f32.
    ///
    /// # Errors
    /// [`CheckpointError::Tensor`] if it holds anything but f32, f16 or bf16.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        self.expect_float()?;
        Ok(floats::to_f32(self.dtype, self.bytes).collect())
    }

    /// Whether the elements of a float tensor are finite; tensors of other types pass.
    pub(super) fn expect_finite(&self) -> Result<()> {
        match floats::to_f32(self.dtype, self.bytes).enumerate().find(|(_, value)| !value.is_finite()) {
            Some((at, value)) => Err(self.refuse(format!("{value} as number {at}"), "finite numbers")),
            None => Ok(()),
        }
    }

    /// A refusal of this tensor: for rules that only the architecture knows.
    pub fn refuse(&self, found: impl Into<String>, expected: impl Into<String>) -> CheckpointError {
        CheckpointError::Tensor {
            file: self.file.to_owned(),
            tensor: self.name.to_owned(),
            found: found.into(),
            expected: expected.into(),
        }
    }
}
