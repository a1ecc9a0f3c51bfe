//! Activations between linears.

use mlx_rs::ops;

use super::Tensor;
use crate::{Error, Result};

/// `silu(gate) ⊙ up` over joined rows `[gate | up]` of shape `[rows, 2F]`; gives `[rows, F]`.
pub fn silu_mul(gate_up: &Tensor) -> Result<Tensor> {
    let width = gate_up.width();
    if !width.is_multiple_of(2) {
        return Err(Error::shape("gate and up", width, width + 1));
    }
    let gate = gate_up.slice_features(0..width / 2)?;
    let up = gate_up.slice_features(width / 2..width)?;
    let silu = ops::multiply(gate.array(), ops::sigmoid(gate.array())?)?;
    Ok(Tensor::wrap(ops::multiply(silu, up.array())?))
}
