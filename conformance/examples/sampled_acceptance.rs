//! How many proposals are accepted when tokens are sampled, beside what rejection sampling would accept.
//!
//! ```text
//! cargo run --release -p conformance --example sampled_acceptance -- TARGET DRAFTER PROMPTS.jsonl
//! ```
//!
//! Drafter and target draw with the same noise, and a proposal is accepted when it is the target's token. For every
//! proposal that is reached, p and q are the distributions of target and drafter for its place; rejection sampling accepts
//! with the probability Σ min(p, q). Fixed width 8, 64 new tokens or the end of the turn, temperatures 0.7 and 1.0.

use std::{path::Path, process::ExitCode};

use conformance::{At as _, Check, Failure, pair::Pair, rounds::Ask, text::Prompt};
use mlxcel_core::{
    Result, TokenId, Width,
    family::{Draft, Pick},
    nn::Executor,
    sampling::{SamplingSettings, Seed},
    speculative::{Models, Sequence, Step},
};
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;
use mlxcel_muse as _;
use mlxcel_qwen as _;

const TOKENS: usize = 64;
const WIDTH: Option<Width> = Width::new(8);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, drafter, prompts] = arguments.as_slice() else {
        eprintln!("usage: sampled_acceptance TARGET DRAFTER PROMPTS.jsonl");
        return ExitCode::from(2);
    };
    match measure(Path::new(target), Path::new(drafter), Path::new(prompts)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("sampled_acceptance: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Proposals that were reached.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    reached: usize,
    accepted: usize,
    /// Sum of Σ min(p, q).
    overlap: f64,
}

fn measure(target: &Path, drafter: &Path, prompts: &Path) -> Check {
    let (pair, text) = Pair::open_on(target, drafter, Executor::Cpu)?;
    let prompts = Prompt::read(&std::fs::read_to_string(prompts).at(prompts.display())?)?;
    println!("| temperature | reached | accepted | Σ min(p, q) |\n| --- | --- | --- | --- |");
    for temperature in [0.7, 1.0] {
        let mut tally = Tally::default();
        for prompt in &prompts {
            let ids = text.ids(prompt)?;
            let seed = Some(Seed(ids.len() as u64));
            let sampling = SamplingSettings { temperature, seed, ..SamplingSettings::default() };
            let ask = Ask { sampling, eos: text.eos.clone(), ..Ask::greedy(&ids, TOKENS) };
            answer(pair.models(), &ask, temperature, &mut tally).at(&prompt.id)?;
        }
        let share = |part: f64| part / tally.reached as f64;
        let (accepted, overlap) = (share(tally.accepted as f64), share(tally.overlap));
        println!("| {temperature} | {} | {accepted:.3} | {overlap:.3} |", tally.reached);
    }
    Ok(())
}

fn answer(models: Models<'_>, ask: &Ask, temperature: f32, tally: &mut Tally) -> Check {
    let mut sequence = Sequence::new(models, ask.request(models.vocabulary, WIDTH)?)?;
    loop {
        match sequence.step() {
            Step::Done(_) => return Ok(()),
            Step::Prefill => {
                let output = models.target.forward(&mut [sequence.prefill_segment()])?.remove(0);
                sequence.prefilled(output)?;
            }
            Step::Observe => {
                if let Some(drafter) = models.drafter {
                    drafter.observe(&mut sequence.observe_jobs(usize::MAX)?)?;
                }
                sequence.observed();
            }
            Step::Round => round(models, &mut sequence, temperature, tally)?,
        }
    }
}

fn round(models: Models<'_>, sequence: &mut Sequence, temperature: f32, tally: &mut Tally) -> Check {
    let mut rows = Vec::new();
    let proposals: Vec<TokenId> = match (models.drafter, sequence.draft_job()?) {
        (Some(drafter), Some(Draft { context, anchor, position, count, pick, confidence })) => {
            let mut pick = Recorder { inner: pick, rows: &mut rows };
            drafter
                .propose(&mut [Draft { context, anchor, position, count, pick: &mut pick, confidence }])?
                .remove(0)
        }
        _ => Vec::new(),
    };
    sequence.drafted(proposals.clone())?;
    let output = models.target.forward(&mut [sequence.segment()])?.remove(0);
    let Some(logits) = &output.logits else { return Err(Failure::Broken("no logits".to_owned())) };
    let logits = logits.to_host()?.into_owned();
    let decisions = sequence.decide(output)?;
    let vocab = models.target.spec().vocab;
    for (i, (proposal, decision)) in proposals.iter().zip(&decisions).enumerate() {
        let p = softmax(&logits[i * vocab..][..vocab], temperature);
        let q = softmax(&rows[i], temperature);
        tally.reached += 1;
        tally.overlap += p.iter().zip(&q).map(|(p, q)| p.min(*q)).sum::<f64>();
        if *proposal != decision.token {
            break;
        }
        tally.accepted += 1;
    }
    Ok(())
}

/// Keeps the drafter's logits on their way to the sampler.
struct Recorder<'a> {
    inner: &'a mut dyn Pick,
    rows: &'a mut Vec<Vec<f32>>,
}

impl Pick for Recorder<'_> {
    fn pick(&mut self, logits: &[f32]) -> Result<TokenId> {
        self.rows.push(logits.to_vec());
        self.inner.pick(logits)
    }
}

fn softmax(logits: &[f32], temperature: f32) -> Vec<f64> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights = logits.iter().map(|logit| f64::from((logit - most) / temperature).exp());
    let weights: Vec<f64> = weights.collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}
