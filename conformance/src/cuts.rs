//! Blocks that are cut where the drafter is not sure.

use mlxcel_core::{
    Width,
    speculative::{
        Models, Speculation,
        width::{ConfidenceUse, SharedEvidence, WidthPolicy, WidthSet},
    },
};

use crate::{
    At as _, Check, Failure, Guided, Short, ensure,
    exactness::{self, same_run},
    pair::Pair,
    random,
    rounds::{Ask, run, run_by},
};

/// Tokens of an answer: enough for blocks to become wide.
const TOKENS: usize = 160;

/// Blocks that are cut by the drafter's confidence give the tokens of classic decoding, greedy and sampled. The drafter is
/// right for some proposals and wrong for the rest, and mostly knows it.
pub fn cuts_of(mut pair: Pair, seed: u64) -> Check {
    let vocab = pair.target.spec().vocab;
    let prompt = random::tokens(seed, 9, vocab);
    let right: Vec<_> = (0..=pair.drafter.spec().trained_width.rows()).rev().collect();
    let mut lost = 0;
    for (i, sampling) in exactness::settings().into_iter().take(6).enumerate() {
        let ask = Ask { sampling, choice: seed, ..Ask::greedy(&prompt, TOKENS) };
        let classic = run(pair.models(), &ask, None)?;
        let guided = Guided::new(pair.drafter, prompt.len(), &classic.tokens(), vocab, &right);
        pair.drafter = Box::new(guided);
        let evidence = taught();
        // The first answer teaches the policy how much is accepted; then blocks are wide, and are cut.
        for mode in [ConfidenceUse::Off, ConfidenceUse::On, ConfidenceUse::On] {
            let place = format!("settings {i}, confidence {mode:?}");
            let speculation = adaptive(pair.models(), &evidence, mode);
            let found = run_by(pair.models(), &ask, speculation).at(&place)?;
            same_run(&found, &classic).at(&place)?;
            let used = (found.report.confidence_used, found.report.rows_cut > 0);
            ensure!(mode == ConfidenceUse::On || used == (false, false), "{place}: {used:?}");
            lost += found.report.rows_cut;
        }
    }
    ensure!(lost >= 24, "{lost} rows were cut, which shows nothing");
    Ok(())
}

/// What is known of a made-up machine where blocks are worth their time.
fn taught() -> SharedEvidence {
    let evidence = SharedEvidence::default();
    // So often that nothing is left to try out.
    for rows in [1, 2, 3, 4, 6, 8, 12, 16].repeat(50) {
        evidence.lock().verified(rows, 0.01 * (0.8 + 0.2 * rows as f64));
        evidence.lock().drafted(rows, 0.001);
    }
    evidence
}

fn adaptive(models: Models<'_>, evidence: &SharedEvidence, mode: ConfidenceUse) -> Speculation {
    let trained = models.drafter.map_or(Width::ONE, |drafter| drafter.spec().trained_width);
    let policy = WidthPolicy::new(evidence.clone(), &WidthSet::up_to(trained), trained);
    Speculation::Adaptive(policy.with_confidence(mode))
}

/// A drafter that proposes less than it is asked for, by lot, changes no token.
///
/// # Errors
/// Those of [`run`], and answers that differ.
pub fn short_blocks_of(mut pair: Pair, seed: u64) -> Result<Pair, Failure> {
    let vocab = pair.target.spec().vocab;
    let prompt = random::tokens(seed, 9, vocab);
    let trained = pair.drafter.spec().trained_width;
    let right: Vec<_> = (0..=trained.rows()).rev().collect();
    for (i, sampling) in exactness::settings().into_iter().take(4).enumerate() {
        let ask = Ask { sampling, choice: seed, ..Ask::greedy(&prompt, TOKENS) };
        let classic = run(pair.models(), &ask, None)?;
        let guided = Guided::new(pair.drafter, prompt.len(), &classic.tokens(), vocab, &right);
        pair.drafter = Box::new(Short::new(Box::new(guided), seed + 100 * i as u64));
        for width in (2..=trained.rows()).filter_map(Width::new) {
            let place = format!("settings {i}, width {width}, short");
            let found = run(pair.models(), &ask, Some(width)).at(&place)?;
            same_run(&found, &classic).at(&place)?;
        }
    }
    Ok(pair)
}
