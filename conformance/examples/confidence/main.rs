//! How well a drafter's confidence foretells what is accepted, and what cutting blocks by it gains.
//!
//! ```text
//! cargo run --release -p conformance --example confidence -- TARGET DRAFTER PROMPTS.jsonl
//! ```
//!
//! First reliability: blocks of the trained width, every proposal that was reached in the class of its confidence. Then what
//! the width policy makes of it: all prompts one after the other, on made-up machines of measured costs
//! (`width::simulation`), so that figures do not depend on how busy this one is, in three orders. Greedy and at a temperature of 0.7, 128 new
//! tokens or the end of the turn.

mod drive;

use std::{path::Path, process::ExitCode};

use conformance::{At as _, Check, Failure, pair::Pair, rounds::Ask, text::Prompt};
use drive::drive;
use mlxcel_core::{
    Width,
    nn::Executor,
    sampling::{SamplingSettings, Seed},
    speculative::{
        Models, Request, Sequence, Speculation,
        width::{
            ConfidenceUse, SharedEvidence, WidthPolicy, WidthSet,
            simulation::{World, machines, pair},
        },
    },
};
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;
use mlxcel_muse as _;
use mlxcel_qwen as _;

const TOKENS: usize = 128;
/// Orders in which the prompts are taken.
const ORDERS: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, drafter, prompts] = arguments.as_slice() else {
        eprintln!("usage: confidence TARGET DRAFTER PROMPTS.jsonl");
        return ExitCode::from(2);
    };
    match measure(Path::new(target), Path::new(drafter), Path::new(prompts)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("confidence: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure(target: &Path, drafter: &Path, prompts: &Path) -> Check {
    let (pair, text) = Pair::open_on(target, drafter, Executor::Cpu)?;
    let prompts = Prompt::read(&std::fs::read_to_string(prompts).at(prompts.display())?)?;
    for temperature in [0.0, 0.7] {
        let mut asks = Vec::new();
        for prompt in &prompts {
            let ids = text.ids(prompt)?;
            let seed = Some(Seed(ids.len() as u64));
            let sampling = SamplingSettings { temperature, seed, ..SamplingSettings::default() };
            asks.push(Ask { sampling, eos: text.eos.clone(), ..Ask::greedy(&ids, TOKENS) });
        }
        println!("\ntemperature {temperature}\n");
        reliability(pair.models(), &asks)?;
        gains(pair.models(), &asks)?;
    }
    Ok(())
}

/// Proposals of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    reached: f64,
    predicted: f64,
    accepted: f64,
}

fn reliability(models: Models<'_>, asks: &[Ask]) -> Check {
    let width = models.drafter.map_or(Width::ONE, |drafter| drafter.spec().trained_width);
    let mut all: Vec<(usize, f64, bool)> = Vec::new();
    for ask in asks {
        let sequence = Sequence::new(models, ask.request(models.vocabulary, Some(width))?)?;
        drive(models, sequence, None, &mut |round| {
            for (i, chance) in
                round.confidence.iter().enumerate().take(round.agreed + usize::from(round.refused))
            {
                all.push((i, f64::from(*chance), i < round.agreed));
            }
        })?;
    }
    let mut classes = [Class::default(); 10];
    let mut positions = vec![Class::default(); width.proposals()];
    for (i, chance, accepted) in &all {
        let truth = f64::from(u8::from(*accepted));
        for class in [&mut classes[((chance * 10.0) as usize).min(9)], &mut positions[*i]] {
            class.reached += 1.0;
            class.predicted += chance;
            class.accepted += truth;
        }
    }
    println!("| confidence | proposals reached | mean confidence | accepted |\n| --- | --- | --- | --- |");
    for (i, Class { reached, predicted, accepted }) in classes.iter().enumerate() {
        let (low, high) = (i as f64 / 10.0, (i + 1) as f64 / 10.0);
        println!(
            "| {low:.1} to {high:.1} | {reached} | {:.3} | {:.3} |",
            predicted / reached,
            accepted / reached
        );
    }
    let share = |class: &Class| class.accepted / class.reached.max(1.0);
    let error = |chance: &dyn Fn(usize, f64) -> f64| {
        let one = |(i, confidence, accepted): &(usize, f64, bool)| {
            (chance(*i, *confidence) - f64::from(u8::from(*accepted))).powi(2)
        };
        all.iter().map(one).sum::<f64>() / all.len() as f64
    };
    println!(
        "\nmean squared error: {:.4} by confidence, {:.4} by position (positions known afterwards)\n",
        error(&|_, confidence| confidence),
        error(&|i, _| share(&positions[i]))
    );
    Ok(())
}

/// What a way of choosing widths gave on all prompts.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    rounds: usize,
    rows: usize,
    after_first: usize,
    cut: usize,
    /// In classic rounds.
    time: f64,
}

fn gains(models: Models<'_>, asks: &[Ask]) -> Check {
    println!(
        "| machine | confidence | tokens per round | tokens per target row | rows cut | of classic (by order of the prompts) |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for machine in machines() {
        let Some(world) = pair(machine, "code") else { continue };
        for mode in [ConfidenceUse::Off, ConfidenceUse::Auto, ConfidenceUse::On] {
            let mut all = Tally::default();
            let mut speeds = Vec::new();
            // What is learned depends on what comes first.
            for order in 0..ORDERS {
                let mut asks = asks.to_vec();
                let first = order * asks.len() / ORDERS;
                asks.rotate_left(first);
                let one = adaptive(models, &asks, &world, mode)?;
                speeds.push(format!("{:.3}", one.after_first as f64 / one.time));
                all.rounds += one.rounds;
                all.rows += one.rows;
                all.after_first += one.after_first;
                all.cut += one.cut;
                all.time += one.time;
            }
            let tokens = all.after_first as f64;
            let figures = [tokens / all.rounds as f64, tokens / all.rows as f64, tokens / all.time];
            let [per_round, per_row, speed] = figures.map(|figure| format!("{figure:.3}"));
            let (cut, speeds) = (all.cut / ORDERS, speeds.join(", "));
            println!("| {machine} | {mode:?} | {per_round} | {per_row} | {cut} | {speed} ({speeds}) |");
        }
    }
    Ok(())
}

fn adaptive(models: Models<'_>, asks: &[Ask], world: &World, mode: ConfidenceUse) -> Result<Tally, Failure> {
    let evidence = SharedEvidence::default();
    let trained = models.drafter.map_or(Width::ONE, |drafter| drafter.spec().trained_width);
    let mut tally = Tally::default();
    for ask in asks {
        let policy = WidthPolicy::new(evidence.clone(), &WidthSet::up_to(trained), trained);
        let speculation = Speculation::Adaptive(policy.with_confidence(mode));
        let request = Request { speculation, ..ask.request(models.vocabulary, None)? };
        let sequence = Sequence::new(models, request)?;
        let report = drive(models, sequence, Some(world), &mut |round| tally.time += round.time)?;
        tally.rounds += report.rounds;
        tally.rows += report.rounds + report.proposed;
        tally.after_first += report.emitted - 1;
        tally.cut += report.rows_cut;
    }
    Ok(tally)
}
