//! How well a drafter serves its target, in tokens per round.
//!
//! A broken convention of a drafter (a tap one layer early, the other rope pairing, a context without the prompt) leaves the
//! text as it is, since the target verifies it: only acceptance tells.

use mlxcel_core::Width;

use crate::{
    Check, ensure,
    pair::Pair,
    rounds::{Ask, Run, run},
    text::{Prompt, Text},
};

/// Tokens of an answer that [`reaches`] counts.
const TOKENS: usize = 64;

/// Rounds of some answers, and the tokens they gave: those after the first of each, which the prompt's forward gives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Rounds.
    pub rounds: usize,
    /// Tokens that they emitted.
    pub tokens: usize,
}

impl Tally {
    /// Of one answer.
    pub fn of(run: &Run) -> Self {
        Self { rounds: run.rounds.len(), tokens: run.decisions.len().saturating_sub(1) }
    }

    /// Counts another one in.
    pub fn add(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.tokens += other.tokens;
    }

    /// The mean.
    pub fn tokens_per_round(self) -> f64 {
        self.tokens as f64 / self.rounds as f64
    }
}

/// Greedy answers to all prompts of code and docs in this crate's list, in blocks of 8 rows, give at least `floor` tokens
/// per round.
pub fn reaches(pair: &Pair, text: &Text, floor: f64) -> Check {
    let mut tally = Tally::default();
    for prompt in Prompt::own()?.iter().filter(|prompt| prompt.kind != "chat") {
        let ids = text.ids(prompt)?;
        let ask = Ask { eos: text.eos.clone(), ..Ask::greedy(&ids, TOKENS) };
        tally.add(Tally::of(&run(pair.models(), &ask, Some(Width::EIGHT))?));
    }
    let found = tally.tokens_per_round();
    ensure!(found >= floor, "{found:.3} tokens per round, where the pair is known to give {floor} or more");
    Ok(())
}
