//! The gated delta net.

use mlxcel_kernels::{
    Exec, Heads,
    conv::ShortConv,
    delta::{self, DeltaRows},
};

use super::{Rows, buffer::Buffer};
use crate::{
    Result,
    nn::{DeltaDims, DeltaWeights, Span},
};

/// See [`crate::nn::GatedDelta`].
#[derive(Clone, Debug)]
pub(crate) struct GatedDelta {
    dims: DeltaDims,
    conv: ShortConv,
    a_log: Vec<f32>,
    dt_bias: Vec<f32>,
    norm: Vec<f32>,
    norm_eps: f32,
}

impl GatedDelta {
    /// Of checked weights.
    pub(crate) fn new(dims: DeltaDims, weights: &DeltaWeights) -> Self {
        let DeltaWeights { kernel, a_log, dt_bias, norm, norm_eps } = weights.clone();
        let conv = ShortConv::new(&kernel, dims.qkv_width(), None);
        Self { dims, conv, a_log, dt_bias, norm, norm_eps }
    }

    /// `[rows, q | k | v | z | b | a]` to `[rows, out_width]`.
    pub(crate) fn forward(&self, x: &Rows, spans: &mut [Span<'_>]) -> Result<Rows> {
        let (exec, dims) = (Exec::current(), self.dims);
        let (heads, qkv_width, out_width) = (dims.value_heads, dims.qkv_width(), dims.out_width());
        let columns = |first, heads, dim| Heads::columns(x.values(), x.width(), first, heads, dim);
        let mixed = columns(0, 1, qkv_width);
        let z = columns(qkv_width, heads, dims.value_dim);
        let b = columns(qkv_width + out_width, 1, heads);
        let a = columns(qkv_width + out_width + heads, 1, heads);
        let (mut alpha, mut beta) = (Buffer::new(x.rows() * heads), Buffer::new(x.rows() * heads));
        delta::gates(&exec, a, b, &self.a_log, &self.dt_bias, &mut alpha, &mut beta);

        let mut result = Ok(());
        let out = Rows::build(x.rows(), out_width, |out| {
            result = spans.iter_mut().try_for_each(|span| {
                let state = span.state.delta()?;
                let rows = span.rows.clone();
                let mut qkv = Buffer::new(rows.len() * qkv_width);
                let convolve =
                    |history: &mut [f32]| self.conv.silu(&exec, mixed.slice(rows.clone()), history, &mut qkv);
                state.window().append_cpu(rows.len(), convolve)?;
                let gates = rows.start * heads..rows.end * heads;
                let block = DeltaRows { qkv: &qkv, alpha: &alpha[gates.clone()], beta: &beta[gates] };
                state.step_cpu(&exec, block, &mut out[rows.start * out_width..rows.end * out_width])
            });
            delta::gated_norm(&exec, out, z, &self.norm, self.norm_eps);
        });
        result.map(|()| out)
    }
}
