//! Activations between linears.

use super::{
    Tensor, cpu, mlx,
    tensor::{Repr, both},
};
use crate::{Error, Result};

/// `silu(gate) ⊙ up` over joined rows `[gate | up]` of shape `[rows, 2F]`; gives `[rows, F]`.
pub fn silu_mul(gate_up: &Tensor) -> Result<Tensor> {
    let width = gate_up.width();
    if !width.is_multiple_of(2) {
        return Err(Error::shape("gate and up", width, width + 1));
    }
    both!(gate_up => silu_mul())
}

/// `x ⊙ σ(gate)`, both `[rows, width]`: an output gated by what its layer reads (spec 3.4).
pub fn sigmoid_mul(x: &Tensor, gate: &Tensor) -> Result<Tensor> {
    if (gate.rows(), gate.width()) != (x.rows(), x.width()) {
        return Err(Error::shape("width of a gate", gate.width(), x.width()));
    }
    match (&x.0, &gate.0) {
        (Repr::Mlx(x), Repr::Mlx(gate)) => mlx::sigmoid_mul(x, gate).map(Tensor::mlx),
        (Repr::Cpu(x), Repr::Cpu(gate)) => cpu::sigmoid_mul(x, gate).map(Tensor::cpu),
        _ => Err(Error::Executors),
    }
}

/// `x · factor`, element by element.
pub fn scale(x: &Tensor, factor: f32) -> Result<Tensor> {
    both!(x => scale(factor))
}

/// `cap · tanh(x · multiplier / cap)`, element by element: logits of models that bound them (spec 3.4, 4.3).
pub fn softcap(x: &Tensor, multiplier: f32, cap: f32) -> Result<Tensor> {
    both!(x => softcap(multiplier, cap))
}
