//! Depthwise causal convolution over a few rows, with the rows before them kept by the caller.

use crate::{Exec, Heads, activation::zip, dispatch, math, rows::by_rows, simd::Simd};

/// Values of work that make it worth waking another thread.
const SPLIT: usize = 16 * 1024;

/// `c_t = bias + Σ_j w[:, j] · s_(t-K+1+j)`, j from 0 to K-1 in that order; `w[:, K-1]` multiplies the current row.
///
/// The caller keeps a *history* `[K-1 + rows, channels]`: first the window (the last K-1 rows before the block, zeros before
/// position 0), then room for the block's own rows, which the calls below fill. After keeping m rows, the next window is history
/// rows `m .. m + K-1`.
#[derive(Clone, Debug)]
pub struct ShortConv {
    /// `[K, channels]`: one contiguous row per tap.
    taps: Vec<f32>,
    bias: Option<Vec<f32>>,
    channels: usize,
    size: usize,
}

impl ShortConv {
    /// From a kernel `[channels, K]` (both checkpoint layouts, `[channels, 1, K]` and `[channels, K, 1]`, are this in
    /// memory) and an optional bias `[channels]`.
    ///
    /// # Panics
    /// If K is not in 2..=8 or the lengths do not match.
    pub fn new(kernel: &[f32], channels: usize, bias: Option<&[f32]>) -> Self {
        assert!(
            channels > 0 && kernel.len().is_multiple_of(channels),
            "{} taps, {channels} channels",
            kernel.len()
        );
        let size = kernel.len() / channels;
        assert!((2..=8).contains(&size), "convolution over {size} rows; supported: 2 to 8");
        let taps = (0..size).flat_map(|j| (0..channels).map(move |c| kernel[c * size + j])).collect();
        if let Some(bias) = bias {
            assert_eq!(bias.len(), channels, "convolution bias length");
        }
        Self { taps, bias: bias.map(<[f32]>::to_vec), channels, size }
    }

    /// Rows of the window: K-1.
    pub fn window(&self) -> usize {
        self.size - 1
    }

    /// Channels.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// The gated form (LFM2): `x` `[rows, 3 · channels]` holds B, C and X side by side; s = B ⊙ X goes to the history and
    /// `out` `[rows, channels]` = C ⊙ conv(s).
    ///
    /// # Panics
    /// If the lengths do not match.
    pub fn gated(&self, exec: &Exec, x: &[f32], history: &mut [f32], out: &mut [f32]) {
        let width = self.channels;
        assert!(
            x.len().is_multiple_of(3 * width),
            "convolution input: {} values in rows of {}",
            x.len(),
            3 * width
        );
        self.check(x.len() / (3 * width), history, out);
        by_rows(exec, &mut history[self.window() * width..], width, SPLIT, |rows, new| {
            dispatch!(exec.isa, |s| {
                for (row, new) in rows.zip(new.chunks_exact_mut(width)) {
                    let x = &x[row * 3 * width..(row + 1) * 3 * width];
                    zip(
                        s,
                        &x[..width],
                        &x[2 * width..],
                        new,
                        #[inline(always)]
                        |b, x| s.mul(b, x),
                    );
                }
            });
        });
        let history = &*history;
        by_rows(exec, out, width, SPLIT, |rows, out| {
            dispatch!(exec.isa, |s| {
                for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
                    let gate = &x[(row * 3 + 1) * width..(row * 3 + 2) * width];
                    self.row(
                        s,
                        &history[row * width..],
                        gate,
                        out,
                        #[inline(always)]
                        |c, gate| s.mul(gate, c),
                    );
                }
            });
        });
    }

    /// The activated form (Qwen 3.5): the view `x` `[rows, 1, channels]` (columns of a joined projection, say) is copied to the
    /// history and `out` `[rows, channels]` = silu(conv(x)).
    ///
    /// # Panics
    /// If the shapes do not match.
    pub fn silu(&self, exec: &Exec, x: Heads<'_>, history: &mut [f32], out: &mut [f32]) {
        let width = self.channels;
        assert_eq!((x.heads(), x.dim()), (1, width), "convolution input: one run of channels per row");
        self.check(x.rows(), history, out);
        for (row, new) in history[self.window() * width..].chunks_exact_mut(width).enumerate() {
            new.copy_from_slice(x.head(row, 0));
        }
        let history = &*history;
        by_rows(exec, out, width, SPLIT, |rows, out| {
            dispatch!(exec.isa, |s| {
                for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
                    let (history, current) = (&history[row * width..], x.head(row, 0));
                    self.row(
                        s,
                        history,
                        current,
                        out,
                        #[inline(always)]
                        |c, _| math::silu(s, c),
                    );
                }
            });
        });
    }

    fn check(&self, rows: usize, history: &[f32], out: &[f32]) {
        assert_eq!(out.len(), rows * self.channels, "convolution output length for {rows} rows");
        assert_eq!(
            history.len(),
            (self.window() + rows) * self.channels,
            "convolution history length for {rows} rows"
        );
    }

    /// `out = f(convolution, other)` for the row whose K rows start at `history`.
    #[inline(always)]
    fn row<S: Simd>(
        &self,
        s: S,
        history: &[f32],
        other: &[f32],
        out: &mut [f32],
        f: impl Fn(S::F, S::F) -> S::F,
    ) {
        let whole = self.channels / 16 * 16;
        for channel in (0..whole).step_by(16) {
            let y = f(self.lanes(s, history, channel, 16), at(s, other, channel, 16));
            s.store_partial(&mut out[channel..channel + 16], y);
        }
        let rest = self.channels - whole;
        if rest > 0 {
            let y = f(self.lanes(s, history, whole, rest), at(s, other, whole, rest));
            s.store_partial(&mut out[whole..], y);
        }
    }

    /// The convolution in `n` channels from `channel` on.
    #[inline(always)]
    fn lanes<S: Simd>(&self, s: S, history: &[f32], channel: usize, n: usize) -> S::F {
        let mut acc = match &self.bias {
            Some(bias) => at(s, bias, channel, n),
            None => s.splat(0.0),
        };
        for tap in 0..self.size {
            let channel = tap * self.channels + channel;
            acc = s.fma(at(s, &self.taps, channel, n), at(s, history, channel, n), acc);
        }
        acc
    }
}

/// `n` values from `start` on.
#[inline(always)]
fn at<S: Simd>(s: S, x: &[f32], start: usize, n: usize) -> S::F {
    s.load_partial(&x[start..start + n], 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, noise, same, ways};

    /// The convolution in f64: `history` `[K-1 + rows, channels]`, `kernel` `[channels, K]`.
    fn reference(kernel: &[f32], bias: &[f32], channels: usize, history: &[f32]) -> Vec<f64> {
        let size = kernel.len() / channels;
        let rows = history.len() / channels + 1 - size;
        let value = |t: usize, c: usize| {
            let taps =
                (0..size).map(|j| kernel[c * size + j] as f64 * history[(t + j) * channels + c] as f64);
            bias[c] as f64 + taps.sum::<f64>()
        };
        (0..rows).flat_map(|t| (0..channels).map(move |c| (t, c))).map(|(t, c)| value(t, c)).collect()
    }

    #[test]
    fn both_forms_match_f64_for_every_kernel_size() {
        for size in 2..=8 {
            for channels in [5, 16, 40, 200] {
                let rows = 9;
                let (kernel, bias) = (noise(1, channels * size), noise(2, channels));
                let conv = ShortConv::new(&kernel, channels, Some(&bias));
                let (x, window) = (noise(3, rows * 3 * channels), noise(4, (size - 1) * channels));
                for exec in ways() {
                    let mut history = [window.clone(), vec![0.0; rows * channels]].concat();
                    let mut out = vec![0.0; rows * channels];
                    conv.gated(&exec, &x, &mut history, &mut out);
                    let part = |row: usize, i: usize, c: usize| x[(row * 3 + i) * channels + c];
                    for (i, s) in history[window.len()..].iter().enumerate() {
                        let (row, c) = (i / channels, i % channels);
                        assert_eq!(*s, part(row, 0, c) * part(row, 2, c));
                    }
                    let want = reference(&kernel, &bias, channels, &history);
                    let gate = |i: usize| part(i / channels, 1, i % channels) as f64;
                    let want: Vec<f64> = want.iter().enumerate().map(|(i, c)| c * gate(i)).collect();
                    close(&out, &want, 5e-7, "gated");

                    let mut history = [window.clone(), vec![0.0; rows * channels]].concat();
                    conv.silu(&exec, Heads::rows_of(&x[..rows * channels], channels), &mut history, &mut out);
                    same(&history[window.len()..], &x[..rows * channels], "history");
                    let want = reference(&kernel, &bias, channels, &history);
                    let want: Vec<f64> = want.iter().map(|c| c / (1.0 + (-c).exp())).collect();
                    close(&out, &want, 5e-7, "silu");
                }
            }
        }
    }

    /// The sum has one order, whatever runs it: bias, then the taps from the oldest row to the newest, with one rounding
    /// each. Another order is as accurate and has other bits.
    #[test]
    fn taps_are_added_from_the_oldest_row_to_the_newest() {
        for (size, channels) in [(3, 40), (4, 5), (8, 16)] {
            let rows = 5;
            let (kernel, bias) = (noise(1, channels * size), noise(2, channels));
            let conv = ShortConv::new(&kernel, channels, Some(&bias));
            let (mut x, window) = (noise(3, rows * 3 * channels), noise(4, (size - 1) * channels));
            // A gate of 1 leaves the sum as it is.
            x.chunks_exact_mut(channels).skip(1).step_by(3).for_each(|gate| gate.fill(1.0));
            let sum = |history: &[f32], order: &dyn Fn(usize) -> usize| -> Vec<f32> {
                let value = |t: usize, c: usize| {
                    (0..size).map(order).fold(bias[c], |acc, j| {
                        kernel[c * size + j].mul_add(history[(t + j) * channels + c], acc)
                    })
                };
                (0..rows).flat_map(|t| (0..channels).map(move |c| (t, c))).map(|(t, c)| value(t, c)).collect()
            };
            for exec in ways() {
                let mut history = [window.clone(), vec![0.0; rows * channels]].concat();
                let mut out = vec![0.0; rows * channels];
                conv.gated(&exec, &x, &mut history, &mut out);
                same(&out, &sum(&history, &|j| j), "oldest row first");
                assert_ne!(out, sum(&history, &|j| size - 1 - j), "the order shows");
            }
        }
    }

    #[test]
    fn blocks_of_any_size_give_the_bits_of_one_row_at_a_time() {
        let (channels, rows) = (40, 512);
        let conv = ShortConv::new(&noise(1, channels * 4), channels, None);
        let mut x = noise(2, rows * 3 * channels);
        x[100 * 3 * channels] = f32::NAN;
        let run = |exec: &Exec, block: usize| {
            let mut window = vec![0.0; conv.window() * channels];
            let mut all = Vec::new();
            for x in x.chunks(block * 3 * channels) {
                let n = x.len() / 3;
                let mut history = [window.clone(), vec![0.0; n]].concat();
                let mut out = vec![0.0; n];
                conv.gated(exec, x, &mut history, &mut out);
                all.extend(out);
                window = history[n..].to_vec();
            }
            all
        };
        let first = run(&ways()[0], 1);
        // The NaN reaches its channel in the K rows that see it, nothing else.
        let bad: Vec<usize> = (0..first.len()).filter(|&i| first[i].is_nan()).collect();
        assert_eq!(bad, [100, 101, 102, 103].map(|row| row * channels));
        for exec in ways() {
            for block in (1..=17).chain([rows]) {
                same(&run(&exec, block), &first, "blocks");
            }
        }
    }
}
