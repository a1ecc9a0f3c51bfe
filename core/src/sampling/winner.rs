//! The lowest id with the highest score `l(v) + T · G(v)`.

use mlxcel_kernels::{dispatch, isa};

use crate::TokenId;
use crate::sampling::filter::Kept;
use crate::sampling::noise::{G_MAX, Noise, gumbel_bound, gumbel_of_bits};
use crate::sampling::scan::{BLOCK, Ranked, Scan};

/// The best kept id so far. The outcome does not depend on the order in which ids are offered.
struct Leader {
    id: u32,
    score: f32,
    noise: Noise,
    temperature: f32,
    kept: Kept,
}

/// The winner among the kept ids of a row; `None` if no logit is finite.
pub(crate) fn of_row(row: Scan<'_>, kept: Kept, noise: Noise, temperature: f32) -> Option<TokenId> {
    dispatch!(isa(), |_s| search(row, kept, noise, temperature))
}

#[inline(always)]
fn search(row: Scan<'_>, kept: Kept, noise: Noise, temperature: f32) -> Option<TokenId> {
    if temperature == 0.0 {
        // No noise, and nothing is filtered.
        let (first, block) = row.blocks(row.best).next()?;
        return (first..).zip(block).find(|(_, logit)| **logit == row.best).map(|(id, _)| TokenId(id));
    }
    let mut leader = Leader { id: u32::MAX, score: f32::NEG_INFINITY, noise, temperature, kept };
    // The block of the best logit first: its score is close to the winner's, and rules most others out.
    if let Some((first, block)) = row.blocks(row.best).next() {
        leader.offer(first, block);
    }
    for (first, block, maximum) in row.blocks_with_maxima() {
        if maximum >= kept.floor() && leader.can_be_reached_by(maximum) {
            leader.offer(first, block);
        }
    }
    (leader.score > f32::NEG_INFINITY).then_some(TokenId(leader.id))
}

impl Leader {
    /// Whether an id with this logit could lead, whatever its noise: rounding keeps the order of `l + T·g` for `g ≤ G_MAX`.
    #[inline(always)]
    fn can_be_reached_by(&self, logit: f32) -> bool {
        self.temperature.mul_add(G_MAX, logit) >= self.score
    }

    /// Scores the ids that could lead. Most are ruled out by a bound on their noise that needs no logarithm.
    #[inline(always)]
    fn offer(&mut self, first: u32, block: &[f32]) {
        let mut logits = [f32::NEG_INFINITY; BLOCK];
        logits[..block.len()].copy_from_slice(block);
        let bounds = bounds(first, &logits, self.noise, self.temperature);
        // Counted rather than searched, so that it vectorises.
        if bounds.iter().filter(|bound| **bound >= self.score).count() == 0 {
            return;
        }
        for ((id, logit), bound) in (first..).zip(logits).zip(bounds) {
            if bound >= self.score && self.kept.holds(Ranked::new(id, logit)) {
                self.score(id, logit);
            }
        }
    }

    fn score(&mut self, id: u32, logit: f32) {
        let score = self.temperature.mul_add(gumbel_of_bits(self.noise.bits(id)), logit);
        if score > self.score || (score == self.score && id < self.id) {
            (self.id, self.score) = (id, score);
        }
    }
}

/// No score of the ids from `first` on is above these; a loop that the compiler vectorises.
#[inline(always)]
fn bounds(first: u32, logits: &[f32; BLOCK], noise: Noise, temperature: f32) -> [f32; BLOCK] {
    let mut bounds = [0.0; BLOCK];
    for i in 0..BLOCK {
        bounds[i] = logits[i] + temperature * gumbel_bound(noise.bits(first + i as u32));
    }
    bounds
}
