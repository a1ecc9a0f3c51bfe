//! The CPU executor: row-exact kernels called at once on plain buffers. A row's bits never depend on how many rows come
//! with it, on threads, or on the instruction set (see `mlxcel-kernels`).

mod attention;
mod buffer;
mod conv;
mod delta;
mod linear;
mod rows;

pub(crate) use attention::{append, attend, forward};
pub(crate) use conv::short_conv;
pub(crate) use delta::GatedDelta;
pub(crate) use linear::Linear;
pub(crate) use rows::{Rows, concat_features, concat_rows, slice_features, slice_rows};

use mlxcel_kernels::{Exec, Heads, activation, norm};

use crate::Result;

/// `silu(gate) ⊙ up` of joined rows.
pub(crate) fn silu_mul(gate_up: &Rows) -> Result<Rows> {
    let width = gate_up.width() / 2;
    Ok(Rows::build(gate_up.rows(), width, |out| {
        activation::silu_mul(&Exec::current(), gate_up.values(), width, out);
    }))
}

/// `x ⊙ σ(gate)`.
#[expect(clippy::unnecessary_wraps, reason = "both executors have one signature")]
pub(crate) fn sigmoid_mul(x: &Rows, gate: &Rows) -> Result<Rows> {
    Ok(Rows::build(x.rows(), x.width(), |out| {
        out.copy_from_slice(x.values());
        activation::sigmoid_mul(&Exec::current(), out, Heads::rows_of(gate.values(), gate.width()));
    }))
}

/// `x · factor`.
#[expect(clippy::unnecessary_wraps, reason = "both executors have one signature")]
pub(crate) fn scale(x: &Rows, factor: f32) -> Result<Rows> {
    Ok(Rows::build(x.rows(), x.width(), |out| {
        out.copy_from_slice(x.values());
        activation::scale(&Exec::current(), out, factor);
    }))
}

/// `cap · tanh(x · multiplier / cap)`.
#[expect(clippy::unnecessary_wraps, reason = "both executors have one signature")]
pub(crate) fn softcap(x: &Rows, multiplier: f32, cap: f32) -> Result<Rows> {
    Ok(Rows::build(x.rows(), x.width(), |out| {
        out.copy_from_slice(x.values());
        activation::softcap(&Exec::current(), out, multiplier, cap);
    }))
}

/// RMS norm of each row.
pub(crate) fn rms_norm(x: &Rows, weight: Option<&[f32]>, eps: f32) -> Result<Rows> {
    Ok(Rows::build(x.rows(), x.width(), |out| {
        norm::rms_norm(&Exec::current(), Heads::rows_of(x.values(), x.width()), weight, eps, out);
    }))
}
