//! Where two answers part, and how near the target was to a tie there.

use anyhow::{Context as _, Result};
use mlxcel_core::{
    Kept, TokenId, Width,
    family::{LogitRows, Segment, Target, Want},
    state::SequenceState,
};

/// The first token that differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Divergence {
    /// Its index in the answer.
    pub(super) at: usize,
    /// What classic decoding gives; `None` if its answer has ended.
    pub(super) classic: Option<TokenId>,
    /// What speculation gives.
    pub(super) speculative: Option<TokenId>,
    /// Difference of the target's two best logits there, decoded classically.
    pub(super) margin: f32,
}

/// Finds where `found` leaves `expected`, which differ, and decodes classically up to there for the margin.
pub(super) fn find(
    target: &dyn Target,
    prompt: &[TokenId],
    expected: &[TokenId],
    found: &[TokenId],
) -> Result<Divergence> {
    let at = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    let mut state = target.new_state(Width::ONE);
    let mut logits = Vec::new();
    for chunk in prompt.chunks(512) {
        logits = forward(target, &mut state, chunk)?;
    }
    for token in &expected[..at] {
        state.begin(Width::ONE)?;
        logits = forward(target, &mut state, &[*token])?;
        state.commit(Kept(1))?;
    }
    let margin = margin(&logits);
    Ok(Divergence { at, classic: expected.get(at).copied(), speculative: found.get(at).copied(), margin })
}

fn forward(target: &dyn Target, state: &mut SequenceState, tokens: &[TokenId]) -> Result<Vec<f32>> {
    let want = Want { logits: LogitRows::Last, taps: &[] };
    let output = target.forward(&mut [Segment { tokens, state: &mut *state, want }])?.pop();
    state.eval()?;
    let logits = output.and_then(|output| output.logits).context("a forward gave no logits")?;
    Ok(logits.to_host()?.into_owned())
}

/// The best logit less the second best.
fn margin(logits: &[f32]) -> f32 {
    let (mut best, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &logit in logits {
        if logit > best {
            (best, second) = (logit, best);
        } else if logit > second {
            second = logit;
        }
    }
    best - second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_between_the_two_best() {
        assert_eq!(margin(&[1.0, 4.0, -2.0, 3.5]), 0.5);
        assert_eq!(margin(&[4.0, 4.0, 1.0]), 0.0);
        assert_eq!(margin(&[3.0, 4.0]), 1.0);
    }
}
