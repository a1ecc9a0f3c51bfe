//! What the width policy gains and costs on recorded workloads, against made-up machines: the tables of docs/speculation.md.
//!
//! ```text
//! cargo run --release -p mlxcel-core --example width_curves [RUNS]
//! ```

use mlxcel_core::{
    Width,
    speculative::width::{
        SharedEvidence, WidthSet,
        simulation::{End, Round, World, acceptance, machines, pair, request},
    },
};

const PROMPT: usize = 128;

fn main() {
    let runs = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(400);
    let widths = WidthSet::up_to(Width::new(16).unwrap_or(Width::ONE));
    let worlds: Vec<World> =
        machines().flat_map(|machine| acceptance().filter_map(move |name| pair(machine, name))).collect();
    println!(
        "| machine, acceptance | best width: of classic | rounds 65–512, of the best | 16 cold | 64 cold | 256 cold | 64 warm |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for world in &worlds {
        let (width, best) = best(world, &widths);
        let settled = mean((0..runs).map(|seed| {
            let shared = SharedEvidence::default();
            rate(&request(world, None, &shared, &widths, PROMPT, End::Rounds(512), seed)[64..]) / best
        }));
        let figures: Vec<String> = [(16, 0), (64, 0), (256, 0), (64, 4)]
            .into_iter()
            .map(|(tokens, earlier)| against_classic(world, &widths, tokens, earlier, runs))
            .collect();
        println!("| {} | {width}: {best:.2} | {settled:.3} | {} |", world.name, figures.join(" | "));
    }
}

/// The best fixed width with its rate, in tokens per classic round.
fn best(world: &World, widths: &WidthSet) -> (Width, f64) {
    let rates =
        widths.iter().map(|width| (width, world.tokens(width.rows()) / world.round_time(width.rows())));
    rates.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((Width::ONE, 1.0))
}

fn rate(rounds: &[Round]) -> f64 {
    let tokens: usize = rounds.iter().map(|round| round.emitted).sum();
    tokens as f64 / rounds.iter().map(|round| round.time).sum::<f64>()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Speed of an answer of `tokens` after `earlier` ones of 256, of classic decoding: mean and 5th percentile.
fn against_classic(world: &World, widths: &WidthSet, tokens: usize, earlier: u64, runs: u64) -> String {
    let mut ratios: Vec<f64> = (0..runs)
        .map(|seed| {
            let shared = SharedEvidence::default();
            let run = |tokens, seed| request(world, None, &shared, widths, PROMPT, End::Tokens(tokens), seed);
            for answer in 0..earlier {
                run(256, seed + (answer + 1) * 1_000_003);
            }
            (tokens - 1) as f64 / run(tokens, seed).iter().map(|round| round.time).sum::<f64>()
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    format!("{:.2} / {:.2}", mean(ratios.iter().copied()), ratios[ratios.len() / 20])
}
