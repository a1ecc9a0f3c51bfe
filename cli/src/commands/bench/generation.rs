//! What speculation gains: answers classic and speculative, in turn.

use std::{fmt::Write as _, ops::ControlFlow};

use anyhow::{Context as _, Result, bail};
use mlxcel_core::{
    TokenId, Width,
    family::Drafter,
    sampling::SamplingSettings,
    speculative::{
        Decline, Generated, Models, Report, Request, Speculation, Synthetic, generate,
        width::{SharedEvidence, WidthPolicy, WidthSet},
    },
};
use serde_json::{Value, json};

use super::{SEED, samples::Samples};
use crate::args::BenchArgs;

pub(super) struct Generation {
    tokens: usize,
    synthetic: bool,
    classic: Samples,
    arms: Vec<Arm>,
}

/// A way to choose the width.
struct Arm {
    /// `None` for widths chosen by what is measured.
    width: Option<Width>,
    times: Samples,
    report: Report,
}

/// Answers `prompt` greedily with `args.tokens` tokens, classic and at every width, `args.repeat` times in turn. Fails if
/// an arm emits other tokens than the classic one, or its drafter fails. The target is that of `models`, which have no drafter.
pub(super) fn measure(
    models: Models<'_>,
    drafter: Box<dyn Drafter>,
    rates: Vec<f64>,
    prompt: &[TokenId],
    widths: &[Width],
    args: &BenchArgs,
) -> Result<Generation> {
    let vocab = models.target.spec().vocab;
    let run = |drafter: Option<&dyn Drafter>, speculation| -> Result<Generated> {
        let request = Request {
            prompt: prompt.to_vec(),
            sampling: SamplingSettings { temperature: 0.0, seed: Some(SEED), ..SamplingSettings::default() }
                .validate(vocab)?,
            choice: 0,
            max_tokens: args.tokens,
            min_tokens: 0,
            eos: Vec::new(),
            watch: None,
            speculation,
        };
        Ok(generate(Models { drafter, ..models }, request, &mut |_| ControlFlow::Continue(()))?)
    };
    let expected = run(None, Speculation::Off)?.tokens;
    let synthetic = !rates.is_empty();
    let drafter: Box<dyn Drafter> = if synthetic {
        let mut synthetic = Synthetic::new(drafter, rates, vocab, SEED);
        synthetic.record(prompt, &expected);
        Box::new(synthetic)
    } else {
        drafter
    };
    let widths = widths.iter().copied().filter(|&width| width > Width::ONE);
    let mut arms: Vec<Arm> = widths
        .map(Some)
        .chain([None])
        .map(|width| Arm { width, times: Samples::default(), report: Report::default() })
        .collect();
    let trained = drafter.spec().trained_width;
    let evidence = SharedEvidence::default();
    let adaptive = || {
        let policy = WidthPolicy::new(evidence.clone(), &WidthSet::up_to(trained), trained);
        Speculation::Adaptive(policy)
    };
    let mut classic = Samples::default();
    for _ in 0..args.repeat {
        classic.push(run(None, Speculation::Off)?.report.decode_time);
        for arm in &mut arms {
            let speculation = arm.width.map_or_else(adaptive, Speculation::Fixed);
            let generated = run(Some(drafter.as_ref()), speculation).with_context(|| arm.name())?;
            if generated.report.decline == Some(Decline::DrafterFailed) {
                bail!("{}: the drafter failed; the log says how", arm.name());
            }
            if generated.tokens != expected {
                bail!("{} emitted other tokens than classic decoding", arm.name());
            }
            arm.times.push(generated.report.decode_time);
            arm.report = generated.report;
        }
    }
    Ok(Generation { tokens: args.tokens, synthetic, classic, arms })
}

impl Arm {
    fn name(&self) -> String {
        self.width.map_or("the adaptive policy".to_owned(), |width| format!("width {width}"))
    }
}

impl Generation {
    fn rate(&self, seconds: f64) -> f64 {
        self.tokens.saturating_sub(1) as f64 / seconds
    }

    pub(super) fn text(&self) -> String {
        let kind = if self.synthetic { "synthetic acceptance" } else { "the drafter's own acceptance" };
        let mut text = format!(
            "answers of {} tokens, {kind}; same tokens at every width\n  rows   tok/s (min time)   tok/round   of classic\n",
            self.tokens
        );
        let _ =
            writeln!(text, "     1  {:>17.1}  {:>10.2}  {:>11.2}", self.rate(self.classic.min()), 1.0, 1.0);
        for arm in &self.arms {
            let (rate, ratio) = (self.rate(arm.times.min()), self.classic.min() / arm.times.min());
            let rows = arm.width.map_or("auto".to_owned(), |width| width.to_string());
            let per_round = arm.report.tokens_per_round();
            let declined = arm.report.decline.map(|decline| format!("  {decline}")).unwrap_or_default();
            let _ = writeln!(text, "  {rows:>4}  {rate:>17.1}  {per_round:>10.2}  {ratio:>11.2}{declined}");
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let arm = |arm: &Arm| {
            json!({
                "width": arm.width.map(Width::rows),
                "widths": arm.report.widths,
                "min_seconds": arm.times.min(),
                "median_seconds": arm.times.median(),
                "decline": arm.report.decline.map(|decline| decline.to_string()),
                "tokens_per_round": arm.report.tokens_per_round(),
                "accepted_by_position": arm.report.accepted_by_position,
                "proposed_by_position": arm.report.proposed_by_position,
            })
        };
        json!({
            "tokens": self.tokens,
            "synthetic": self.synthetic,
            "classic_min_seconds": self.classic.min(),
            "classic_median_seconds": self.classic.median(),
            "widths": self.arms.iter().map(arm).collect::<Vec<_>>(),
        })
    }
}

/// A probability.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.trim().parse().map_err(|_| "expected a number from 0 to 1".to_owned())?;
    if (0.0..=1.0).contains(&rate) { Ok(rate) } else { Err("expected a number from 0 to 1".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_probabilities() {
        assert_eq!(rate(" 0.5"), Ok(0.5));
        for text in ["-0.1", "1.1", "NaN", "x", ""] {
            assert!(rate(text).is_err(), "{text} was taken as a rate");
        }
    }
}
