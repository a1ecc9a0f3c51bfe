//! The sampler as a whole: against a slow reference, against the rejection-sampling fixture, and as a random draw.

mod draws;
mod fixture;
mod properties;
mod reference;
mod rows;

use std::sync::Arc;

use super::*;
use crate::{Position, TokenId};

/// The sampler of choice 0 for all `columns` ids.
fn sampler(settings: SamplingSettings, columns: usize) -> Sampler {
    Sampler::new(settings.validate(columns).unwrap(), 0, Arc::new(Vocabulary::all(columns)))
}

/// Settings with a seed and a temperature, and nothing else.
fn seeded(seed: u64, temperature: f32) -> SamplingSettings {
    SamplingSettings { temperature, seed: Some(Seed(seed)), ..Default::default() }
}

/// The pick at `position` without history.
fn pick(sampler: &Sampler, logits: &[f32], position: usize) -> TokenId {
    sampler.pick(logits, Position(position), &History::default(), &[]).unwrap()
}

/// `n` logits, deterministic and about normal with this standard deviation.
fn normal_logits(seed: u64, n: usize, deviation: f32) -> Vec<f32> {
    let uniform = |part: u64, id: usize| {
        let bits = Noise::new(Seed(seed), part, Position(0)).bits(id as u32);
        (bits as f32 + 0.5) / 4_294_967_296.0
    };
    (0..n)
        .map(|id| deviation * 1.732 * 2.0 * ((0..4).map(|part| uniform(part, id)).sum::<f32>() / 2.0 - 1.0))
        .collect()
}
