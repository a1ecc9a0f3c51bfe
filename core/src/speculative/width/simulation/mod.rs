//! A policy against a made-up machine: no models, no clock. The same seed gives the same run.

mod recorded;
#[cfg(test)]
mod tests;

pub use recorded::{acceptance, machines, pair};

use super::{Outcome, SharedEvidence, Situation, WidthPolicy, WidthSet};
use crate::Width;

/// A pair on a machine. Times are in classic rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// What it is called.
    pub name: String,
    /// The chance of each proposal when all before it were accepted; the last one goes on.
    pub chances: Vec<f64>,
    /// The target by rows; straight lines in ln rows and ln time between them. The first is 1 row.
    pub verify: Vec<(usize, f64)>,
    /// The drafter: a round, and each proposal.
    pub draft: (f64, f64),
    /// A row of the prompt: in the target, and observed by the drafter.
    pub prompt_row: (f64, f64),
    /// How much times scatter (standard deviation of ln time), how many rounds in a thousand take five times as long, and
    /// by how much slow phases of the machine are slower.
    pub noise: (f64, u64, f64),
}

impl World {
    /// Time of a round of `rows` rows, without noise.
    pub fn round_time(&self, rows: usize) -> f64 {
        let draft = if rows > 1 { self.draft.0 + self.draft.1 * (rows - 1) as f64 } else { 0.0 };
        self.verify_time(rows) + draft
    }

    fn verify_time(&self, rows: usize) -> f64 {
        let after = self.verify.iter().position(|(at, _)| *at >= rows).unwrap_or(self.verify.len() - 1);
        let (to, high) = self.verify[after];
        let (from, low) = self.verify[after.saturating_sub(1)];
        if from == to {
            return high;
        }
        let part = (rows as f64 / from as f64).ln() / (to as f64 / from as f64).ln();
        (low.ln() + part * (high / low).ln()).exp()
    }

    /// Tokens that a round of `rows` rows gives, on average.
    pub fn tokens(&self, rows: usize) -> f64 {
        let mut survival = 1.0;
        (0..rows)
            .map(|i| {
                let tokens = survival;
                survival *= self.chance(i);
                tokens
            })
            .sum()
    }

    fn chance(&self, position: usize) -> f64 {
        self.chances.get(position).or(self.chances.last()).copied().unwrap_or(0.0)
    }

    /// Tokens per classic round at the best fixed width of `widths`.
    pub fn best_rate(&self, widths: &WidthSet) -> f64 {
        widths
            .iter()
            .map(|width| self.tokens(width.rows()) / self.round_time(width.rows()))
            .fold(0.0, f64::max)
    }
}

/// A round that was simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Rows of the block.
    pub width: Width,
    /// Tokens emitted.
    pub emitted: usize,
    /// Its time without noise, catching up included.
    pub time: f64,
}

/// When a simulated request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After so many tokens.
    Tokens(usize),
    /// After so many rounds.
    Rounds(usize),
}

/// One request of `prompt` tokens in `world`; from round `drift.0` on the pair behaves as `drift.1`.
pub fn request(
    world: &World,
    drift: Option<(usize, &World)>,
    evidence: &SharedEvidence,
    widths: &WidthSet,
    prompt: usize,
    end: End,
    seed: u64,
) -> Vec<Round> {
    let mut random = Random(seed);
    let mut machine = Machine { slow: false };
    let mut policy = WidthPolicy::new(evidence.clone(), widths, widths.widest());
    let budget = match end {
        End::Tokens(tokens) => tokens,
        End::Rounds(_) => 1 << 20,
    };
    let prefill = world.prompt_row.0 * prompt as f64;
    policy.prefilled(prompt, TICK * prefill * machine.noise(world, &mut random));
    // The prompt's forward gives the first token.
    let (mut emitted, mut backlog, mut keeping) = (1, prompt, true);
    let mut rounds = Vec::new();
    while emitted < budget && end != End::Rounds(rounds.len()) {
        let world = match drift {
            Some((from, after)) if rounds.len() >= from => after,
            _ => world,
        };
        let at = Situation { room: budget - emitted, remaining: budget - emitted, emitted, backlog };
        keeping = keeping && !policy.is_hopeless(&at);
        let width = if keeping { policy.choose(&at) } else { Width::ONE };
        let rows = width.rows();
        let mut time = 0.0;
        let mut observing = 0.0;
        if width > Width::ONE && backlog > 0 {
            observing = world.prompt_row.1 * backlog as f64;
            // What a round leaves to be observed is part of the drafter's time.
            if backlog > 16 {
                let noise = machine.noise(world, &mut random);
                policy.observed(backlog, TICK * observing * noise);
                time += observing;
                observing = 0.0;
            }
            backlog = 0;
        }
        let accepted = (0..rows - 1).take_while(|&i| random.uniform() < world.chance(i)).count();
        let outcome = Outcome { width, accepted, refused: accepted < rows - 1, emitted: accepted + 1 };
        let noise = machine.noise(world, &mut random);
        let draft = world.round_time(rows) - world.verify_time(rows) + observing;
        {
            let mut evidence = evidence.lock();
            evidence.verified(rows, TICK * world.verify_time(rows) * noise);
            if rows > 1 {
                evidence.drafted(rows - 1, TICK * draft * noise);
            }
        }
        policy.round(&outcome);
        emitted += outcome.emitted;
        backlog += outcome.emitted;
        time += world.round_time(rows) + observing;
        rounds.push(Round { width, emitted: outcome.emitted, time });
    }
    rounds
}

/// Seconds of a classic round.
const TICK: f64 = 0.01;

/// How the machine runs just now.
struct Machine {
    slow: bool,
}

impl Machine {
    /// The factor on the next time.
    fn noise(&mut self, world: &World, random: &mut Random) -> f64 {
        let (scatter, spikes, slowness) = world.noise;
        if random.uniform() < 0.02 {
            self.slow = !self.slow;
        }
        let phase = if self.slow { slowness } else { 1.0 };
        let spike = if random.uniform() * 1000.0 < spikes as f64 { 5.0 } else { 1.0 };
        phase * spike * (scatter * random.normal()).exp()
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (-53f64).exp2()
    }

    /// Roughly normal: the sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}
