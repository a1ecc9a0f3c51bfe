//! The loop itself, on targets and drafters without weights: whatever the width, the drafter's luck, the settings and the
//! end, speculative decoding gives what a naive loop gives, in the rounds that it must take.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

use std::sync::{Arc, LazyLock};

use conformance::{
    At as _, Failure,
    exactness::same_run,
    mixed,
    rounds::{Ask, run},
    scripted::{Script, ScriptedDrafter, ScriptedTarget, reference::Reference},
    spelling::spelled,
};
use mlxcel_core::{
    TokenId, Width, exactness::Gate, family::Drafter, sampling::Vocabulary, speculative::Models,
    text::TextModel,
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};

const VOCAB: usize = 24;
const TRAINED: usize = 16;

static TEXT: LazyLock<Arc<TextModel>> = LazyLock::new(|| spelled(VOCAB).unwrap());

#[derive(Clone, Debug)]
struct Case {
    script: Script,
    ask: Ask,
    vocabulary: Arc<Vocabulary>,
    context: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    let script = (any::<u64>(), prop_oneof![Just(0u64), Just(100), 40u64..100])
        .prop_map(|(seed, agreement)| Script { seed, vocab: VOCAB, agreement });
    let prompt = prop::collection::vec((0..VOCAB as u32).prop_map(TokenId), 1..=11);
    let context = prop_oneof![Just(512usize), 13usize..40];
    (script, prompt, any::<u64>(), context).prop_map(|(script, prompt, seed, context)| {
        let ask = mixed::ask(seed, &prompt, VOCAB, &TEXT);
        Case { script, ask, vocabulary: mixed::vocabulary(seed, VOCAB), context }
    })
}

fn check(case: &Case) -> Result<(), Failure> {
    let target = ScriptedTarget::new(case.script, case.context)?;
    let trained = Width::new(TRAINED).unwrap();
    let drafter = ScriptedDrafter::new(case.script, trained);
    let (drafter, vocabulary, gate) = (Some(&drafter as &dyn Drafter), &case.vocabulary, Gate::unguarded());
    let models = Models { target: &target, drafter, vocabulary, gate };
    let reference = Reference::new(case.script, &case.ask, case.context, &case.vocabulary)?;
    let classic = run(models, &case.ask, None)?;
    reference.check(&classic, Width::ONE)?;
    for width in (1..=TRAINED).filter_map(Width::new) {
        let speculative = run(models, &case.ask, Some(width)).at(format_args!("width {width}"))?;
        reference.check(&speculative, width).at(format_args!("width {width}"))?;
        same_run(&speculative, &classic).at(format_args!("width {width}"))?;
    }
    Ok(())
}

/// All settings mixed at random, at every width: ids, log-probabilities, finish, text, rounds and state.
#[test]
fn speculation_changes_nothing() {
    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let checked = |case| check(&case).map_err(|failure| TestCaseError::fail(failure.to_string()));
    runner.run(&cases(), checked).unwrap();
}
