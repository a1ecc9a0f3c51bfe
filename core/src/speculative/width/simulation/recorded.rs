//! Workloads from measured figures: acceptance of the trained pairs, costs of machines.

use super::{Foresight, World};

/// Acceptance: its name, and the chance of each proposal when all before it were accepted, for positions 1–3, 4–7 and from 8
/// on. From tokens per round at widths 4, 8 and 16 (docs/benchmarks.md), where one chance for each stretch gives them.
const ACCEPTANCE: [(&str, [f64; 3]); 5] = [
    // Qwen 3.5, 4 bit, code: 3.25, 4.16, 4.35 tokens per round.
    ("code", [0.86, 0.63, 0.67]),
    // LFM2, bf16, documentation: 2.76, 3.14, 3.19.
    ("docs", [0.76, 0.48, 0.69]),
    // LFM2, 4 bit, chat: 1.92, 2.04, 2.04.
    ("chat", [0.52, 0.48, 0.0]),
    // LFM2, bf16, one prompt of code that falls into a loop: 3.97, 6.05, 6.68.
    ("loop", [0.99, 0.76, 0.67]),
    // A drafter that does not fit its target: the rotation of another family, 1.36 tokens per round.
    ("misfit", [0.27, 0.27, 0.27]),
];

/// A machine: the target by rows and the drafter's round, in classic rounds, and observing a prompt's row.
type Machine = (&'static str, [(usize, f64); 5], f64, f64);

const MACHINES: [Machine; 5] = [
    // An LFM2-350M shape on two cores (docs/benchmarks.md), 4 and 8 bit, with a drafter of the DSpark shape.
    ("cpu 4 bit", [(1, 1.0), (2, 1.03), (4, 1.42), (8, 2.76), (16, 5.0)], 0.74, 0.006),
    ("cpu 8 bit", [(1, 1.0), (2, 1.0), (4, 1.19), (8, 1.75), (16, 2.7)], 0.72, 0.006),
    // Rounds of two Apple GPUs: 1.14 + 0.090 a proposal, and 1.35 + 0.346 a proposal, in steps; a tenth of a step for the
    // drafter beside it.
    ("gpu new", [(1, 1.0), (2, 1.13), (4, 1.31), (8, 1.67), (16, 2.39)], 0.1, 0.003),
    ("gpu old", [(1, 1.0), (2, 1.6), (4, 2.29), (8, 3.67), (16, 6.44)], 0.1, 0.003),
    // The toy pairs on two cores: a drafter a third of the target's size is no small one.
    ("toy", [(1, 1.0), (2, 1.3), (4, 2.0), (8, 3.2), (16, 5.5)], 1.2, 0.02),
];

/// Names of the recorded acceptances.
pub fn acceptance() -> impl Iterator<Item = &'static str> {
    ACCEPTANCE.iter().map(|(name, _)| *name)
}

/// Names of the recorded machines.
pub fn machines() -> impl Iterator<Item = &'static str> {
    MACHINES.iter().map(|(name, ..)| *name)
}

/// The world of a recorded machine and acceptance, on a machine that others use too; `None` for other names.
pub fn pair(machine: &str, acceptance: &str) -> Option<World> {
    let (_, verify, draft, observe) = MACHINES.iter().find(|(name, ..)| *name == machine)?;
    let (_, [early, middle, late]) = ACCEPTANCE.iter().find(|(name, _)| *name == acceptance)?;
    let chances = (0..15).map(|position| match position {
        0..3 => *early,
        3..7 => *middle,
        _ => *late,
    });
    Some(World {
        name: format!("{machine}, {acceptance}"),
        chances: chances.collect(),
        verify: verify.to_vec(),
        draft: (*draft, 0.01),
        prompt_row: (0.2, *observe),
        noise: (0.1, 10, 1.5),
        foresight: Foresight::None,
    })
}
