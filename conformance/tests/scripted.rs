//! The loop itself, on targets and drafters without weights: whatever the width, the drafter's luck, the settings and the
//! end, speculative decoding gives what a naive loop gives, in the rounds that it must take.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

use conformance::{
    Failure,
    exactness::same_run,
    rounds::{Ask, run, whole_vocabulary},
    scripted::{Script, ScriptedDrafter, ScriptedTarget, reference::Reference},
};
use mlxcel_core::{
    TokenId, Width,
    sampling::{SamplingSettings, Seed},
    speculative::Models,
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};

const VOCAB: usize = 24;
const TRAINED: usize = 16;

#[derive(Clone, Debug)]
struct Case {
    script: Script,
    ask: Ask,
    width: usize,
    context: usize,
}

fn ids(most: usize) -> impl Strategy<Value = Vec<TokenId>> {
    prop::collection::vec((0..VOCAB as u32).prop_map(TokenId), 0..=most)
}

fn sampling() -> impl Strategy<Value = SamplingSettings> {
    let bias = prop::collection::vec(((0..VOCAB as u32).prop_map(TokenId), -3.0f32..3.0), 0..4);
    let penalties = (prop_oneof![Just(1.0f32), 0.7f32..1.8], -1.5f32..1.5, -0.8f32..0.8);
    let filters = (
        prop_oneof![Just(0usize), 1usize..VOCAB],
        prop_oneof![Just(1.0f64), 0.3f64..1.0],
        prop_oneof![Just(0.0f64), 0.0f64..0.3],
    );
    let temperature = prop_oneof![Just(0.0f32), 0.3f32..1.6];
    (temperature, filters, penalties, bias, any::<u64>(), any::<bool>(), prop::option::of(0usize..4))
        .prop_map(|(temperature, (top_k, top_p, min_p), penalties, logit_bias, seed, penalised, logprobs)| {
            let (repetition, presence, frequency) = if penalised { penalties } else { (1.0, 0.0, 0.0) };
            SamplingSettings {
                temperature,
                top_k,
                top_p,
                min_p,
                repetition_penalty: repetition,
                presence_penalty: presence,
                frequency_penalty: frequency,
                logit_bias,
                seed: Some(Seed(seed)),
                logprobs,
            }
        })
}

fn cases() -> impl Strategy<Value = Case> {
    let script = (any::<u64>(), prop_oneof![Just(0u64), Just(100), 40u64..100])
        .prop_map(|(seed, agreement)| Script { seed, vocab: VOCAB, agreement });
    let prompt = ids(11).prop_filter("a prompt has a token", |prompt| !prompt.is_empty());
    let limits = (0usize..40, 0usize..12, prop_oneof![Just(vec![]), ids(4)], prop::option::of(1usize..30));
    (script, prompt, sampling(), limits, 1usize..=TRAINED, prop_oneof![Just(512usize), 13usize..40], 0u64..3)
        .prop_map(|(script, prompt, sampling, limits, width, context, choice)| {
            let (max_tokens, min_tokens, eos, stop_after) = limits;
            let ask = Ask { prompt, sampling, choice, max_tokens, min_tokens, eos, stop_after };
            Case { script, ask, width, context }
        })
}

fn check(case: &Case) -> Result<(), Failure> {
    let target = ScriptedTarget::new(case.script, case.context)?;
    let trained = Width::new(TRAINED).unwrap();
    let drafter = ScriptedDrafter::new(case.script, trained);
    let vocabulary = whole_vocabulary(VOCAB);
    let models = Models { target: &target, drafter: Some(&drafter), vocabulary: &vocabulary };
    let reference = Reference::new(case.script, &case.ask, case.context, &vocabulary)?;
    let classic = run(models, &case.ask, None)?;
    reference.check(&classic, Width::ONE)?;
    let width = Width::new(case.width).unwrap();
    let speculative = run(models, &case.ask, Some(width))?;
    reference.check(&speculative, width)?;
    same_run(&speculative, &classic)
}

#[test]
fn speculation_changes_nothing() {
    let mut runner = TestRunner::new(Config { cases: 3000, failure_persistence: None, ..Config::default() });
    let checked = |case| check(&case).map_err(|failure| TestCaseError::fail(failure.to_string()));
    runner.run(&cases(), checked).unwrap();
}
