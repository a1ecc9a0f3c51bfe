//! The lowest id with the highest score `l(v) + T · G(v)`.

use crate::TokenId;
use crate::sampling::noise::{G_MAX, Noise, gumbel_bound, gumbel_of_bits};
use crate::sampling::scan::{BLOCK, Ranked, Scan};

/// The best id so far. The outcome does not depend on the order in which ids are offered.
struct Leader {
    id: u32,
    score: f32,
    noise: Noise,
    temperature: f32,
}

impl Leader {
    fn new(noise: Noise, temperature: f32) -> Self {
        Self { id: u32::MAX, score: f32::NEG_INFINITY, noise, temperature }
    }

    /// Whether an id with this logit could lead, whatever its noise: rounding keeps the order of `l + T·g` for `g ≤ G_MAX`.
    fn can_be_reached_by(&self, logit: f32) -> bool {
        self.temperature.mul_add(G_MAX, logit) >= self.score
    }

    /// Scores the ids that could lead. Most are ruled out by a bound on their noise that needs no logarithm.
    fn offer(&mut self, block: impl ExactSizeIterator<Item = (u32, f32)> + Clone) {
        let mut bounds = [f32::NEG_INFINITY; BLOCK];
        for (bound, (id, logit)) in bounds.iter_mut().zip(block.clone()) {
            *bound = logit + self.temperature * gumbel_bound(self.noise.bits(id));
        }
        if bounds.iter().fold(false, |any, &bound| any | (bound >= self.score)) {
            for (bound, (id, logit)) in bounds.iter().zip(block) {
                if *bound >= self.score {
                    self.score_one(id, logit);
                }
            }
        }
    }

    fn score_one(&mut self, id: u32, logit: f32) {
        let score = self.temperature.mul_add(gumbel_of_bits(self.noise.bits(id)), logit);
        if score > self.score || (score == self.score && id < self.id && score > f32::NEG_INFINITY) {
            (self.id, self.score) = (id, score);
        }
    }

    fn id(&self) -> Option<TokenId> {
        (self.score > f32::NEG_INFINITY).then_some(TokenId(self.id))
    }
}

/// The winner of a whole row; `None` if no logit is finite.
pub(crate) fn of_row(row: Scan<'_>, noise: Noise, temperature: f32) -> Option<TokenId> {
    let mut leader = Leader::new(noise, temperature);
    // The block of the best logit first: its score is close to the winner's, and rules most others out.
    let offer = |leader: &mut Leader, (first, block): (u32, &[f32])| {
        leader.offer((0..block.len()).map(|i| (first + i as u32, block[i])));
    };
    if let Some(block) = row.blocks(row.best).next() {
        offer(&mut leader, block);
    }
    for (index, &maximum) in row.maxima.iter().enumerate() {
        if leader.can_be_reached_by(maximum) {
            let first = index * BLOCK;
            let block = &row.logits[first..row.logits.len().min(first + BLOCK)];
            offer(&mut leader, (first as u32, block));
        }
    }
    leader.id()
}

/// The winner of the kept ids; `None` if there are none.
pub(crate) fn of_kept(kept: &[Ranked], noise: Noise, temperature: f32) -> Option<TokenId> {
    let mut leader = Leader::new(noise, temperature);
    for block in kept.chunks(BLOCK) {
        leader.offer(block.iter().map(|kept| (kept.id(), kept.logit())));
    }
    leader.id()
}
