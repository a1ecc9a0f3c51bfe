//! The gated short convolution; see [`crate::nn::ShortConv`].

use mlx_rs::{Array, Dtype, ops, ops::indexing::TryIndexOp};

use super::{concat, matrix, slice_features, slice_rows};
use crate::{Error, Result, nn::Span};

/// The kernel as one `[1, channels]` array a tap; the last multiplies the current row.
#[derive(Clone, Debug)]
pub(crate) struct ShortConv {
    taps: Vec<Array>,
    bias: Option<Array>,
    channels: usize,
}

impl ShortConv {
    /// From kernel values `[channels, K]` and an optional bias `[channels]`.
    pub(crate) fn new(kernel: &[f32], bias: Option<&[f32]>, channels: usize, dtype: Dtype) -> Result<Self> {
        let taps = kernel.len() / channels;
        let tap = |j: usize| {
            let column: Vec<f32> = (0..channels).map(|channel| kernel[channel * taps + j]).collect();
            matrix(&column, 1, channels, dtype)
        };
        let bias = bias.map(|bias| matrix(bias, 1, channels, dtype)).transpose()?;
        Ok(Self { taps: (0..taps).map(tap).collect::<Result<_>>()?, bias, channels })
    }

    /// `[K−1 + rows, channels]` to `[rows, channels]`. Products are added tap by tap in one order, so that a row's bits
    /// do not depend on how many rows come with it.
    pub(super) fn convolve(&self, window: &Array, rows: usize) -> Result<Array> {
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

/// `[rows, 3 · channels]` to `[rows, channels]`.
pub(crate) fn short_conv(conv: &ShortConv, bcx: &Array, spans: &mut [Span<'_>]) -> Result<Array> {
    let d = conv.channels;
    let gated = ops::multiply(slice_features(bcx, 0..d)?, slice_features(bcx, 2 * d..3 * d)?)?;
    let mut rows = Vec::with_capacity(spans.len());
    for span in spans {
        let window = span.state.conv()?.append_mlx(&slice_rows(&gated, span.rows.clone())?)?;
        rows.push(conv.convolve(&window, span.rows.len())?);
    }
    let mixed = concat(&rows.iter().collect::<Vec<_>>(), 0)?;
    Ok(ops::multiply(slice_features(bcx, d..2 * d)?, mixed)?)
}
