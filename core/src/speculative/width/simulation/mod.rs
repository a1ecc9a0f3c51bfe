//! A policy against a made-up machine: no models, no clock. The same seed gives the same run.

mod foresight;
mod recorded;
#[cfg(test)]
mod tests;

pub use foresight::Foresight;
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
    /// What the drafter says of its proposals.
    pub foresight: Foresight,
}

impl World {
    /// Time of a round of `rows` rows, without noise.
    pub fn round_time(&self, rows: usize) -> f64 {
        self.verify_time(rows) + self.draft_time(rows - 1)
    }

    /// Time of the drafter for `proposals`, without noise.
    pub fn draft_time(&self, proposals: usize) -> f64 {
        if proposals == 0 { 0.0 } else { self.draft.0 + self.draft.1 * proposals as f64 }
    }

    /// Time of the target for `rows` rows, without noise.
    pub fn verify_time(&self, rows: usize) -> f64 {
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
    let policy = WidthPolicy::new(evidence.clone(), widths, widths.widest());
    request_by(policy, world, drift, prompt, end, seed)
}

/// The same, with a policy of choice.
pub fn request_by(
    mut policy: WidthPolicy,
    world: &World,
    drift: Option<(usize, &World)>,
    prompt: usize,
    end: End,
    seed: u64,
) -> Vec<Round> {
    let evidence = policy.evidence().clone();
    let mut random = Random(seed);
    let mut machine = Machine { slow: false };
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
        let drafted = width.proposals();
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
        let (chances, confidence) = world.foresight.draw(&mut random, drafted, |i| world.chance(i));
        let whole = width;
        let width = policy.cut(whole, &confidence, |_| true).unwrap_or(whole);
        let rows = width.rows();
        let right = chances.iter().take_while(|chance| random.uniform() < **chance).count();
        // The last row of a block that was cut tells of the first proposal that was left out.
        let looked_at = if width < whole { rows } else { rows - 1 };
        let (accepted, tokens) = (right.min(looked_at), right.min(rows - 1) + 1);
        let outcome = Outcome { width, drafted, accepted, refused: accepted < looked_at, emitted: tokens };
        let noise = machine.noise(world, &mut random);
        let draft = world.draft_time(drafted) + observing;
        {
            let mut evidence = evidence.lock();
            evidence.verified(rows, TICK * world.verify_time(rows) * noise);
            if drafted > 0 {
                evidence.drafted(drafted, TICK * draft * noise);
            }
        }
        policy.round(&outcome);
        emitted += outcome.emitted;
        backlog += outcome.emitted;
        time += world.verify_time(rows) + draft;
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
