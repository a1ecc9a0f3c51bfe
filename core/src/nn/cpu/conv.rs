//! The gated short convolution.

use mlxcel_kernels::{Exec, conv::ShortConv};

use super::Rows;
use crate::{Result, nn::Span};

/// `[rows, 3 · channels]` to `[rows, channels]`; see [`crate::nn::ShortConv`].
pub(crate) fn short_conv(conv: &ShortConv, bcx: &Rows, spans: &mut [Span<'_>]) -> Result<Rows> {
    let (exec, channels) = (Exec::current(), conv.channels());
    let mut result = Ok(());
    let out = Rows::build(bcx.rows(), channels, |out| {
        result = spans.iter_mut().try_for_each(|span| {
            let x = &bcx.values()[span.rows.start * 3 * channels..span.rows.end * 3 * channels];
            let out = &mut out[span.rows.start * channels..span.rows.end * channels];
            let fill = |history: &mut [f32]| conv.gated(&exec, x, history, out);
            span.state.conv()?.append_cpu(span.rows.len(), fill)
        });
    });
    result.map(|()| out)
}
