//! What a forward costs: blocks by width at a given context, and a prompt.

use std::{fmt::Write as _, time::Instant};

use anyhow::{Context as _, Result};
use mlxcel_core::{
    Kept, Position, TokenId, Width,
    family::{LogitRows, Output, Segment, Target, Want},
    nn::Tensor,
    state::SequenceState,
};
use serde_json::{Value, json};

use super::{samples::Samples, tokens};
use crate::{args::BenchArgs, commands::greedy::Greedy};

/// Blocks of one width in a row in a sample; the shortest of them counts.
const IN_A_ROW: usize = 6;

pub(super) struct Forwards {
    context: usize,
    prompt: usize,
    /// By width: one sample a repeat, each the shortest of a few.
    blocks: Vec<(Width, Samples)>,
    prefill: Samples,
}

/// Measures all widths in turn, `args.repeat` times.
pub(super) fn measure(
    target: &dyn Target,
    context: &[TokenId],
    widths: &[Width],
    args: &BenchArgs,
) -> Result<Forwards> {
    let widest = widths.iter().copied().max().unwrap_or(Width::ONE);
    let mut state = target.new_state(widest);
    prefill(target, &mut state, context)?;
    let mut blocks: Vec<(Width, Samples)> = widths.iter().map(|&width| (width, Samples::default())).collect();
    check(target, &mut state, &context[..widest.rows()], widest)?;
    let prompt = tokens(target, args.prefill);
    let mut prefills = Samples::default();
    for _ in 0..args.repeat {
        for (width, samples) in &mut blocks {
            let mut shortest = None;
            for _ in 0..IN_A_ROW {
                let start = Instant::now();
                block(target, &mut state, &context[..width.rows()], *width)?;
                let time = start.elapsed();
                shortest = Some(shortest.map_or(time, |shortest| time.min(shortest)));
            }
            samples.push(shortest.unwrap_or_default());
        }
        if !prompt.is_empty() {
            let start = Instant::now();
            prefill(target, &mut target.new_state(Width::ONE), &prompt)?;
            prefills.push(start.elapsed());
        }
    }
    Ok(Forwards { context: context.len(), prompt: prompt.len(), blocks, prefill: prefills })
}

fn prefill(target: &dyn Target, state: &mut SequenceState, prompt: &[TokenId]) -> Result<()> {
    for (chunk, last) in prompt.chunks(512).zip((1..=prompt.len().div_ceil(512)).rev()) {
        let logits = if last == 1 { LogitRows::Last } else { LogitRows::None };
        let want = Want { logits, taps: &[] };
        let outputs = target.forward(&mut [Segment { tokens: chunk, state: &mut *state, want }])?;
        outputs.iter().filter_map(|output| output.logits.as_ref()).try_for_each(Tensor::eval)?;
        state.eval()?;
    }
    Ok(())
}

/// Whether a request could be decided from the logits of a block: figures of a broken model say nothing.
fn check(target: &dyn Target, state: &mut SequenceState, tokens: &[TokenId], width: Width) -> Result<()> {
    let vocab = target.spec().vocab;
    let position = Position(state.len()? + 1);
    let logits = block(target, state, tokens, width)?.and_then(|output| output.logits);
    let logits = logits.context("the target gave no logits")?;
    Greedy::new(vocab, position)?.check(&logits.to_host()?, vocab).context("the target fails")
}

fn block(
    target: &dyn Target,
    state: &mut SequenceState,
    tokens: &[TokenId],
    width: Width,
) -> Result<Option<Output>> {
    state.begin(width)?;
    let want = Want { logits: LogitRows::All, taps: &[] };
    let mut outputs = target.forward(&mut [Segment { tokens, state: &mut *state, want }])?;
    outputs.iter().filter_map(|output| output.logits.as_ref()).try_for_each(Tensor::eval)?;
    state.commit(Kept(0))?;
    Ok(outputs.pop())
}

impl Forwards {
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "forwards at {} rows of context\n  rows      min ms   median ms   of 1 row\n",
            self.context
        );
        let one =
            self.blocks.iter().find(|(width, _)| *width == Width::ONE).map(|(_, samples)| samples.min());
        for (width, samples) in &self.blocks {
            let ratio = one.map_or(f64::NAN, |one| samples.min() / one);
            let (min, median) = (samples.min() * 1e3, samples.median() * 1e3);
            let _ = writeln!(text, "  {:>4}  {min:>10.3}  {median:>10.3}  {ratio:>9.2}", width.rows());
        }
        if let Some(one) = one {
            let _ = writeln!(text, "  classic: {:.1} tok/s", 1.0 / one);
        }
        if self.prompt > 0 {
            let (rate, time) = (self.prompt as f64 / self.prefill.min(), self.prefill.min() * 1e3);
            let _ = writeln!(text, "prefill of {}: {time:.1} ms, {rate:.1} tok/s", self.prompt);
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let block = |(width, samples): &(Width, Samples)| json!({ "rows": width.rows(), "min_seconds": samples.min(), "median_seconds": samples.median() });
        json!({
            "context": self.context,
            "blocks": self.blocks.iter().map(block).collect::<Vec<_>>(),
            "prefill_tokens": self.prompt,
            "prefill_min_seconds": self.prefill.min(),
            "prefill_median_seconds": self.prefill.median(),
        })
    }
}
