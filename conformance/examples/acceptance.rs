//! How many tokens a round gives, by kind of prompt and width, and whether every answer is that of classic decoding.
//!
//! ```text
//! cargo run --release -p conformance --example acceptance -- TARGET DRAFTER PROMPTS.jsonl [cpu|mlx-f32|mlx-bf16]
//! ```
//!
//! Greedy, 128 new tokens or the end of the turn, fixed widths 4, 8 and 16; chat prompts through the template, others
//! after the begin token. Tokens per round = (emitted − the first) / rounds, all prompts of a kind together. Exactness is
//! checked greedy and at a temperature of 0.8. PROMPTS is a list as [`Prompt`] reads it.

use std::{collections::BTreeMap, path::Path, process::ExitCode};

use conformance::{
    At as _, Check, Failure,
    acceptance::Tally,
    exactness::same_run,
    load,
    pair::Pair,
    rounds::{Ask, run},
    text::Prompt,
};
use mlxcel_core::{
    Width,
    nn::Executor,
    sampling::{SamplingSettings, Seed},
};
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;
use mlxcel_muse as _;
use mlxcel_qwen as _;

const TOKENS: usize = 128;
const WIDTHS: [usize; 3] = [4, 8, 16];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (paths, executor) = match arguments.as_slice() {
        [paths @ .., name] if paths.len() == 3 => (paths, load::executor(name)),
        paths => (paths, Some(Executor::Cpu)),
    };
    let ([target, drafter, prompts], Some(executor)) = (paths, executor) else {
        eprintln!("usage: acceptance TARGET DRAFTER PROMPTS.jsonl [cpu|mlx-f32|mlx-bf16]");
        return ExitCode::from(2);
    };
    let measured = Executor::detect()
        .at("the executor")
        .and_then(|_| measure(Path::new(target), Path::new(drafter), Path::new(prompts), executor));
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("acceptance: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure(target: &Path, drafter: &Path, prompts: &Path, executor: Executor) -> Check {
    let (pair, text) = Pair::open_on(target, drafter, executor)?;
    let prompts = Prompt::read(&std::fs::read_to_string(prompts).at(prompts.display())?)?;
    let trained = pair.drafter.spec().trained_width;
    let widths: Vec<_> =
        WIDTHS.iter().filter_map(|rows| Width::new(*rows)).filter(|w| *w <= trained).collect();
    let mut tallies: BTreeMap<(Width, &str), Tally> = BTreeMap::new();
    let mut different = Vec::new();
    for prompt in &prompts {
        let ids = text.ids(prompt)?;
        let greedy = Ask { eos: text.eos.clone(), ..Ask::greedy(&ids, TOKENS) };
        let sampling =
            SamplingSettings { temperature: 0.8, seed: Some(Seed(ids.len() as u64)), ..Default::default() };
        for (mode, ask) in [("greedy", greedy.clone()), ("sampled", Ask { sampling, ..greedy })] {
            let classic = run(pair.models(), &ask, None).at(&prompt.id)?;
            for width in &widths {
                let speculative = run(pair.models(), &ask, Some(*width)).at(&prompt.id)?;
                if let Err(failure) = same_run(&speculative, &classic) {
                    different.push(format!("{} {mode} at width {width}: {failure}", prompt.id));
                }
                if mode == "greedy" {
                    let tally = Tally::of(&speculative);
                    let (id, tokens) = (&prompt.id, speculative.decisions.len());
                    eprintln!("{id} width {width}: {tokens} tokens, {} rounds", tally.rounds);
                    for kind in [prompt.kind.as_str(), "all"] {
                        tallies.entry((*width, kind)).or_default().add(tally);
                    }
                }
            }
        }
    }
    print(&tallies, &widths);
    let answers = 2 * prompts.len() * widths.len();
    println!("answers as classic decoding gives them: {} of {answers}", answers - different.len());
    if different.is_empty() { Ok(()) } else { Err(Failure::Broken(different.join("\n"))) }
}

fn print(tallies: &BTreeMap<(Width, &str), Tally>, widths: &[Width]) {
    let mut kinds: Vec<&str> = tallies.keys().map(|(_, kind)| *kind).filter(|kind| *kind != "all").collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.push("all");
    println!("| width | {} |", kinds.join(" | "));
    println!("|{}", " --- |".repeat(kinds.len() + 1));
    for width in widths {
        let figures = kinds.iter().filter_map(|kind| tallies.get(&(*width, *kind)));
        let figures: Vec<_> = figures.map(|tally| format!("{:.2}", tally.tokens_per_round())).collect();
        println!("| {width} | {} |", figures.join(" | "));
    }
}
