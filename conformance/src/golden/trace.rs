//! A whole speculative decoding against a reference that recomputes everything in every round.

use mlxcel_core::{
    Width,
    exactness::Gate,
    family::{Drafter, Target},
    speculative::Models,
};

use super::{Golden, Precision};
use crate::{
    At as _, Check, ensure, load,
    rounds::{Ask, Round, run, whole_vocabulary},
};

/// 64 greedy tokens at width 8: the same proposals and accepted counts in every round, the same output. Cases of low
/// precision have no trace.
pub fn trace(golden: &Golden, target: &Golden, precision: Precision) -> Check {
    if precision != Precision::F32 {
        return Ok(());
    }
    let loaded = load::target(target.checkpoint()?)?;
    let drafter = load::drafter(golden.checkpoint()?, loaded.as_ref())?;
    trace_on(loaded.as_ref(), drafter.as_ref(), golden, target)
}

/// [`trace`] on models that are loaded; `prompts` is the target's case.
pub fn trace_on(target: &dyn Target, drafter: &dyn Drafter, golden: &Golden, prompts: &Golden) -> Check {
    let target_expected = prompts.expected()?;
    let vocabulary = whole_vocabulary(target.spec().vocab);
    let models = Models { target, drafter: Some(drafter), vocabulary: &vocabulary, gate: Gate::unguarded() };
    let expected = golden.expected()?;
    for prompt in ["short", "long"] {
        let place = format!("{}/trace/{prompt}", golden.name());
        let output = expected.tokens(&format!("trace/{prompt}/output"))?;
        let accepted = expected.counts(&format!("trace/{prompt}/accepted"))?;
        let proposals = expected.tokens(&format!("trace/{prompt}/proposals"))?;
        // A block near the end of the answer is narrower, and what a drafter proposes depends on the rows of its block;
        // the reference keeps its width, so the answer here ends later.
        let prompt = target_expected.tokens(&format!("{prompt}/prompt"))?;
        let ask = Ask::greedy(&prompt, output.len() + Width::EIGHT.rows());
        let run = run(models, &ask, Some(Width::EIGHT)).at(&place)?;
        let tokens = run.tokens();
        ensure!(tokens.starts_with(&output), "{place}: output {tokens:?}, expected {output:?}");
        let found: Vec<_> = run.rounds.iter().map(Round::accepted).take(accepted.len()).collect();
        ensure!(found == accepted, "{place}: accepted {found:?}, expected {accepted:?}");
        let width = Width::EIGHT.proposals();
        for (i, (round, expected)) in run.rounds.iter().zip(proposals.chunks_exact(width)).enumerate() {
            let found = &round.proposals;
            ensure!(found == expected, "{place}: round {i} proposes {found:?}, expected {expected:?}");
        }
    }
    Ok(())
}
