//! The gated delta net; see [`crate::nn::GatedDelta`].

use mlx_rs::{Array, Dtype, ops, ops::indexing::TryIndexOp};

use super::{ShortConv, concat, matrix, rms_norm, slice_features, slice_rows, vector};
use crate::{
    Result,
    nn::{DeltaDims, DeltaWeights, Span},
};

/// Added to the sum of squares of a key or query.
const EPS: f32 = 1e-6;

/// The weights, in f32 whatever the activations are.
#[derive(Clone, Debug)]
pub(crate) struct GatedDelta {
    dims: DeltaDims,
    dtype: Dtype,
    conv: ShortConv,
    /// `−exp(A_log)`, `[1, value_heads]`.
    decay: Array,
    /// `[1, value_heads]`
    dt_bias: Array,
    /// `[value_dim]`
    norm: Array,
    norm_eps: f32,
}

/// What the recurrence consumes of some rows, in f32: enough for a replay.
#[derive(Clone, Debug)]
pub(crate) struct DeltaArrays {
    /// Convolved and activated `[q | k | v]`, `[rows, qkv_width]`; not yet of unit length.
    qkv: Array,
    /// `[rows, value_heads]`
    alpha: Array,
    /// `[rows, value_heads]`
    beta: Array,
}

impl DeltaArrays {
    /// Rows.
    pub(crate) fn rows(&self) -> usize {
        self.qkv.dim(0) as usize
    }

    /// The first `rows` rows.
    pub(crate) fn first(&self, rows: usize) -> Result<Self> {
        let part = |array| slice_rows(array, 0..rows);
        Ok(Self { qkv: part(&self.qkv)?, alpha: part(&self.alpha)?, beta: part(&self.beta)? })
    }

    /// These rows and then those of `next`.
    pub(crate) fn then(&self, next: &Self) -> Result<Self> {
        let join = |a, b| concat(&[a, b], 0);
        Ok(Self {
            qkv: join(&self.qkv, &next.qkv)?,
            alpha: join(&self.alpha, &next.alpha)?,
            beta: join(&self.beta, &next.beta)?,
        })
    }

    /// Its arrays.
    pub(crate) fn arrays(&self) -> [&Array; 3] {
        [&self.qkv, &self.alpha, &self.beta]
    }
}

impl GatedDelta {
    /// Of checked weights, for activations of `dtype`.
    pub(crate) fn new(dims: DeltaDims, weights: &DeltaWeights, dtype: Dtype) -> Result<Self> {
        let decay: Vec<f32> = weights.a_log.iter().map(|a_log| -a_log.exp()).collect();
        Ok(Self {
            dims,
            dtype,
            conv: ShortConv::new(&weights.kernel, None, dims.qkv_width(), Dtype::Float32)?,
            decay: matrix(&decay, 1, dims.value_heads, Dtype::Float32)?,
            dt_bias: matrix(&weights.dt_bias, 1, dims.value_heads, Dtype::Float32)?,
            norm: vector(&weights.norm, Dtype::Float32)?,
            norm_eps: weights.norm_eps,
        })
    }

    /// `[rows, q | k | v | z | b | a]` to `[rows, out_width]`.
    pub(crate) fn forward(&self, x: &Array, spans: &mut [Span<'_>]) -> Result<Array> {
        let (qkv_width, out_width, heads) =
            (self.dims.qkv_width(), self.dims.out_width(), self.dims.value_heads);
        let gates = qkv_width + out_width;
        let part = |columns| Ok::<_, crate::Error>(slice_features(x, columns)?.as_dtype(Dtype::Float32)?);
        let mixed = slice_features(x, 0..qkv_width)?;
        let z = part(qkv_width..gates)?;
        let beta = ops::sigmoid(part(gates..gates + heads)?)?;
        let alpha = self.alpha(&part(gates + heads..gates + 2 * heads)?)?;
        let mut rows = Vec::with_capacity(spans.len());
        for span in spans {
            let state = span.state.delta()?;
            let window = state.window().append_mlx(&slice_rows(&mixed, span.rows.clone())?)?;
            let mixed = self.conv.convolve(&window.as_dtype(Dtype::Float32)?, span.rows.len())?;
            let block = DeltaArrays {
                qkv: ops::multiply(&mixed, ops::sigmoid(&mixed)?)?,
                alpha: slice_rows(&alpha, span.rows.clone())?,
                beta: slice_rows(&beta, span.rows.clone())?,
            };
            rows.push(state.step_mlx(block)?);
        }
        let o = concat(&rows.iter().collect::<Vec<_>>(), 0)?;
        let shape = [o.dim(0), heads as i32, self.dims.value_dim as i32];
        let o = rms_norm(&o.reshape(&shape)?, Some(&self.norm), self.norm_eps)?;
        let gated = ops::multiply(o.reshape(z.shape())?, ops::multiply(&z, ops::sigmoid(&z)?)?)?;
        Ok(gated.as_dtype(self.dtype)?)
    }

    /// `exp(−exp(A_log) · softplus(a + dt_bias))`
    fn alpha(&self, a: &Array) -> Result<Array> {
        let softplus = ops::logaddexp(ops::add(a, &self.dt_bias)?, Array::from_f32(0.0))?;
        Ok(ops::exp(ops::multiply(&self.decay, softplus)?)?)
    }
}

/// Runs the recurrence over `block` from `state`, `[value_heads, value_dim, key_dim]`; gives the rows' outputs,
/// `[rows, out_width]`, and the state after them.
pub(crate) fn scan(dims: DeltaDims, block: &DeltaArrays, state: &Array) -> Result<(Array, Array)> {
    let keys = dims.key_heads * dims.key_dim;
    let q = unit(&head_vectors(dims, &slice_features(&block.qkv, 0..keys)?)?)?;
    let q = ops::multiply(q, Array::from_f32((dims.key_dim as f32).powf(-0.5)))?;
    let k = unit(&head_vectors(dims, &slice_features(&block.qkv, keys..2 * keys)?)?)?;
    let (rows, heads, width) = (block.rows() as i32, dims.value_heads as i32, dims.value_dim as i32);
    let v = slice_features(&block.qkv, 2 * keys..dims.qkv_width())?.reshape(&[rows, heads, width, 1])?;
    let alpha = block.alpha.reshape(&[rows, heads, 1, 1])?;
    let beta = block.beta.reshape(&[rows, heads, 1, 1])?;
    let mut state = state.clone();
    let mut out = Vec::with_capacity(block.rows());
    for row in 0..rows {
        let at = |array: &Array| array.try_index((row, .., .., ..));
        let (q, k) = (at(&q)?, at(&k)?);
        state = ops::multiply(&state, at(&alpha)?)?;
        let read = ops::sum_axis(ops::multiply(&state, &k)?, -1, true)?;
        let write = ops::multiply(ops::subtract(at(&v)?, read)?, at(&beta)?)?;
        state = ops::add(&state, ops::multiply(write, &k)?)?;
        out.push(ops::sum_axis(ops::multiply(&state, &q)?, -1, false)?.reshape(&[1, heads * width])?);
    }
    Ok((concat(&out.iter().collect::<Vec<_>>(), 0)?, state))
}

/// `[rows, key_heads · key_dim]` to `[rows, value_heads, 1, key_dim]`: value head j reads key head j / (Hv / Hk).
fn head_vectors(dims: DeltaDims, x: &Array) -> Result<Array> {
    let (rows, group) = (x.dim(0), dims.value_heads / dims.key_heads);
    let (key_heads, width) = (dims.key_heads as i32, dims.key_dim as i32);
    let x =
        ops::broadcast_to(x.reshape(&[rows, key_heads, 1, width])?, &[rows, key_heads, group as i32, width])?;
    Ok(x.reshape(&[rows, dims.value_heads as i32, 1, width])?)
}

/// `x / √(Σ x² + 1e-6)` over the last axis.
fn unit(x: &Array) -> Result<Array> {
    let sum = ops::sum_axis(ops::multiply(x, x)?, -1, true)?;
    Ok(ops::multiply(x, ops::rsqrt(ops::add(sum, Array::from_f32(EPS))?)?)?)
}
