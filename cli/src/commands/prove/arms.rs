//! Both ways of decoding, in turn.

use std::ops::ControlFlow;

use anyhow::{Context as _, Result, bail};
use mlxcel_core::{
    TokenId,
    sampling::{CheckedSettings, SamplingSettings},
    speculative::{Generated, Models, Report, Request, Speculation, generate},
};

use super::{
    divergence::{self, Divergence},
    interval::{Interval, geometric_mean},
    prompts::Prompt,
};
use crate::{args::ProveArgs, load::Loaded, notes::Notes};

/// A way of choosing tokens.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) sampling: CheckedSettings,
}

/// All that was compared.
pub(super) struct Proof {
    pub(super) settings: Vec<Outcome>,
    pub(super) repeat: usize,
}

/// What one setting gave.
pub(super) struct Outcome {
    pub(super) name: &'static str,
    pub(super) prompts: Vec<Compared>,
}

/// One prompt under one setting.
pub(super) struct Compared {
    pub(super) name: String,
    pub(super) prompt_tokens: usize,
    /// Tokens of the classic answer.
    pub(super) tokens: usize,
    pub(super) divergence: Option<Divergence>,
    /// Time of the classic answer by that of the speculative one right beside it, prompt included: above 1 is faster.
    pub(super) ratios: Vec<f64>,
    /// Of the last speculative answer.
    pub(super) report: Report,
}

impl Proof {
    pub(super) fn equal(&self) -> bool {
        self.settings.iter().flat_map(|setting| &setting.prompts).all(|prompt| prompt.divergence.is_none())
    }
}

impl Outcome {
    /// The geometric mean over the prompts, of each repeat.
    pub(super) fn mean(&self) -> Option<Interval> {
        let repeats = self.prompts.iter().map(|prompt| prompt.ratios.len()).min()?;
        let of = |repeat: usize| geometric_mean(self.prompts.iter().map(|prompt| prompt.ratios[repeat]));
        Interval::of(&(0..repeats).map(of).collect::<Vec<_>>())
    }
}

/// Greedy, and sampled unless the temperature is 0. Nothing among them names a token, so any vocabulary will do.
pub(super) fn settings(args: &ProveArgs) -> Result<Vec<Setting>> {
    let checked = |temperature| {
        SamplingSettings { temperature, seed: Some(args.seed), ..SamplingSettings::default() }
            .validate(usize::MAX)
    };
    let mut settings = vec![Setting { name: "greedy", sampling: checked(0.0)? }];
    if args.temp != 0.0 {
        settings.push(Setting { name: "sampled", sampling: checked(args.temp)? });
    }
    Ok(settings)
}

/// Answers every prompt under every setting, classically and speculatively in turn.
pub(super) fn compare(
    loaded: &Loaded,
    prompts: &[Prompt],
    settings: &[Setting],
    args: &ProveArgs,
    notes: Notes,
) -> Result<Proof> {
    let mut outcomes = Vec::with_capacity(settings.len());
    for setting in settings {
        let mut compared = Vec::with_capacity(prompts.len());
        for (at, prompt) in prompts.iter().enumerate() {
            notes.line(&format!("{}, prompt {} of {}: {}", setting.name, at + 1, prompts.len(), prompt.name));
            let one =
                one(loaded, prompt, setting, args).with_context(|| format!("prompt {}", prompt.name))?;
            compared.push(one);
        }
        outcomes.push(Outcome { name: setting.name, prompts: compared });
    }
    Ok(Proof { settings: outcomes, repeat: args.repeat })
}

fn one(loaded: &Loaded, prompt: &Prompt, setting: &Setting, args: &ProveArgs) -> Result<Compared> {
    let models = loaded.models();
    let (width, confidence) = (args.speculation.draft_block_size, args.speculation.draft_confidence.into());
    let speculation = || width.map_or_else(|| loaded.adaptive(None, confidence), Speculation::Fixed);
    let answer = |speculation| answer(models, loaded, prompt, setting, args.max_tokens, speculation);
    // Not counted: what is touched for the first time.
    let expected = answer(Speculation::Off)?.tokens;
    let mut compared = Compared {
        name: prompt.name.clone(),
        prompt_tokens: prompt.ids.len(),
        tokens: expected.len(),
        divergence: None,
        ratios: Vec::with_capacity(args.repeat),
        report: Report::default(),
    };
    for repeat in 0..args.repeat {
        // Who goes first has the colder caches, so it is not always the same one.
        let (classic, speculative) = if repeat % 2 == 0 {
            let classic = answer(Speculation::Off)?;
            (classic, answer(speculation())?)
        } else {
            let speculative = answer(speculation())?;
            (answer(Speculation::Off)?, speculative)
        };
        if classic.tokens != expected {
            bail!(
                "classic decoding gave other tokens than before: this machine's results are not repeatable"
            );
        }
        if speculative.tokens != expected && compared.divergence.is_none() {
            compared.divergence =
                Some(divergence::find(models.target, &prompt.ids, &expected, &speculative.tokens)?);
        }
        compared.ratios.push(seconds(&classic) / seconds(&speculative));
        compared.report = speculative.report;
    }
    Ok(compared)
}

/// From the prompt to the last token.
fn seconds(generated: &Generated) -> f64 {
    (generated.report.prefill_time + generated.report.decode_time).as_secs_f64()
}

fn answer(
    models: Models<'_>,
    loaded: &Loaded,
    prompt: &Prompt,
    setting: &Setting,
    max_tokens: usize,
    speculation: Speculation,
) -> Result<Generated> {
    let eos: Vec<TokenId> = loaded.text.model.eos.iter().collect();
    let request = Request {
        prompt: prompt.ids.clone(),
        sampling: setting.sampling.clone(),
        choice: 0,
        max_tokens,
        min_tokens: 0,
        eos,
        watch: None,
        speculation,
    };
    Ok(generate(models, request, &mut |_| ControlFlow::Continue(()))?)
}
