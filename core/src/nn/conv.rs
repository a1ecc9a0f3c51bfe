//! The gated short convolution of LFM2 (spec 1.3).

use mlx_rs::{Array, ops, ops::indexing::TryIndexOp};

use super::{Executor, Span, Tensor, mlx};
use crate::{Error, Result};

/// Depthwise causal convolution between two gates: of `[B | C | X]` rows, `s = B ⊙ X` is what the state holds,
/// `c_t = Σ_j w[j] ⊙ s_(t−K+1+j)`, and the result is `C ⊙ c`.
#[derive(Clone, Debug)]
pub struct ShortConv {
    /// One `[1, channels]` array a tap; the last multiplies the current row.
    taps: Vec<Array>,
    bias: Option<Array>,
    channels: usize,
}

impl ShortConv {
    /// From kernel values `[channels, K]` and an optional bias `[channels]`.
    pub fn new(kernel: &[f32], bias: Option<&[f32]>, channels: usize, executor: Executor) -> Result<Self> {
        let taps = kernel.len() / channels;
        let tap = |j: usize| -> Result<Array> {
            let column: Vec<f32> = (0..channels).map(|channel| kernel[channel * taps + j]).collect();
            mlx::matrix(&column, 1, channels, executor)
        };
        let bias = bias.map(|bias| mlx::matrix(bias, 1, channels, executor)).transpose()?;
        Ok(Self { taps: (0..taps).map(tap).collect::<Result<_>>()?, bias, channels })
    }

    /// Of `[rows, 3 · channels]` gives `[rows, channels]`, and appends the spans' gated inputs to their states.
    pub fn forward(&self, bcx: &Tensor, spans: &mut [Span<'_>]) -> Result<Tensor> {
        let d = self.channels;
        if bcx.width() != 3 * d {
            return Err(Error::shape("short convolution input", bcx.width(), 3 * d));
        }
        let gated =
            ops::multiply(bcx.slice_features(0..d)?.array(), bcx.slice_features(2 * d..3 * d)?.array())?;
        let gated = Tensor::wrap(gated);
        let mut rows = Vec::with_capacity(spans.len());
        for span in spans {
            let window = span.state.conv()?.append(gated.slice_rows(span.rows.clone())?.array())?;
            rows.push(Tensor::wrap(self.convolve(&window, span.rows.len())?));
        }
        let mixed = Tensor::concat_rows(&rows)?;
        Ok(Tensor::wrap(ops::multiply(bcx.slice_features(d..2 * d)?.array(), mixed.array())?))
    }

    /// `[K−1 + rows, channels]` to `[rows, channels]`. Products are added tap by tap in one order, so that a row's bits
    /// do not depend on how many rows come with it.
    fn convolve(&self, window: &Array, rows: usize) -> Result<Array> {
        let mut sum: Option<Array> = None;
        for (j, tap) in self.taps.iter().enumerate() {
            let product = ops::multiply(window.try_index((j as i32..(j + rows) as i32, ..))?, tap)?;
            sum = Some(match sum {
                None => product,
                Some(sum) => ops::add(&sum, &product)?,
            });
        }
        let sum = sum.ok_or_else(|| Error::shape("convolution kernel", 0, 2))?;
        Ok(match &self.bias {
            Some(bias) => ops::add(&sum, bias)?,
            None => sum,
        })
    }
}
