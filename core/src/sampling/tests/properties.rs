//! Decisions equal the reference for all settings mixed, and do not depend on other rows.

use proptest::prelude::*;

use super::reference::Case;
use super::*;

/// Rows with many ties, with wide and narrow spreads, with −∞ and both zeros.
fn logits() -> impl Strategy<Value = Vec<f32>> {
    let ties = prop_oneof![
        10 => (-3_i8..4).prop_map(f32::from),
        2 => Just(-0.0_f32),
        1 => Just(f32::NEG_INFINITY),
    ];
    let wide = prop_oneof![30 => -30.0_f32..30.0, 1 => Just(f32::NEG_INFINITY)];
    let narrow = -0.01_f32..0.01;
    let huge = prop_oneof![Just(f32::MAX), Just(f32::MIN), -1e30_f32..1e30];
    prop_oneof![
        3 => prop::collection::vec(ties, 1..300),
        3 => prop::collection::vec(wide, 1..1500),
        1 => prop::collection::vec(narrow, 1..700),
        1 => prop::collection::vec(huge, 1..100),
    ]
}

fn off_or<T: std::fmt::Debug + Clone + 'static>(
    off: T,
    on: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<T> {
    prop_oneof![2 => Just(off), 3 => on].boxed()
}

fn settings() -> impl Strategy<Value = SamplingSettings> {
    let top_p = prop_oneof![0.0_f64..1.0, Just(0.5), Just(0.25), Just(0.999_999), Just(1e-9)]
        .prop_map(|p| p.max(f64::MIN_POSITIVE));
    (
        prop_oneof![Just(0.0_f32), Just(1.0), 1e-4_f32..3.0, Just(1e-4), Just(1e6)],
        off_or(0, 1_usize..400),
        off_or(1.0, top_p),
        off_or(0.0, prop_oneof![0.0_f64..1.0, Just(1.0), Just(1e-30)]),
        (off_or(1.0, 0.5_f32..2.0), off_or(0.0, -2.0_f32..2.0), off_or(0.0, -2.0_f32..2.0)),
        off_or(vec![], prop::collection::vec((0_u32..300, -5_i8..6), 1..20)),
        any::<u64>(),
    )
        .prop_map(|(temperature, top_k, top_p, min_p, penalties, bias, seed)| SamplingSettings {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty: penalties.0,
            presence_penalty: penalties.1,
            frequency_penalty: penalties.2,
            logit_bias: bias.into_iter().map(|(id, bias)| (TokenId(id), bias as f32)).collect(),
            seed: Some(Seed(seed)),
            logprobs: None,
        })
}

fn ids(most: usize) -> BoxedStrategy<Vec<TokenId>> {
    off_or(vec![], prop::collection::vec((0_u32..300).prop_map(TokenId), 0..most))
}

prop_compose! {
    fn cases()(
        logits in logits(),
        mut settings in settings(),
        choice in 0_u64..4,
        position in 0_usize..100_000,
        (prompt, output) in (ids(60), ids(60)),
        (unknown, never, not_now) in (ids(40), ids(10), ids(10)),
        padding in off_or(0_usize, 0_usize..200),
    ) -> Case {
        let columns = logits.len();
        settings.logit_bias.retain(|(id, _)| id.index() < columns);
        let padding = (columns.saturating_sub(padding).max(1)..columns).map(|id| TokenId(id as u32));
        let unknown = unknown.into_iter().chain(padding).collect();
        Case { logits, settings, choice, position: Position(position), prompt, output, unknown, never, not_now }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_decision_is_the_reference(case in cases()) {
        let expected = case.token().ok_or(SamplingError::NoFinite { position: case.position });
        prop_assert_eq!(case.pick(), expected);
    }

    #[test]
    fn the_kept_ids_are_the_reference(case in cases()) {
        let mut expected: Vec<TokenId> = case.kept().into_iter().map(|(id, _)| id).collect();
        expected.sort();
        let found = case.sampler().kept_distribution(&case.logits, case.position, &case.history(), &case.not_now);
        if expected.is_empty() {
            prop_assert_eq!(found, Err(SamplingError::NoFinite { position: case.position }));
        } else {
            let found = found.unwrap();
            prop_assert_eq!(found.iter().map(|&(id, _)| id).collect::<Vec<_>>(), expected);
            prop_assert!((found.iter().map(|&(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-9);
            if case.settings.top_k > 0 {
                prop_assert!(found.len() <= case.settings.top_k);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Each row is decided alone, then all of them in turn and backwards: buffers that rows share must not leak.
    #[test]
    fn a_decision_does_not_depend_on_other_rows(batch in prop::collection::vec(cases(), 1..8)) {
        let alone: Vec<_> = batch
            .iter()
            .map(|case| std::thread::scope(|scope| scope.spawn(|| case.pick()).join().unwrap()))
            .collect();
        let in_turn: Vec<_> = batch.iter().map(Case::pick).collect();
        let mut backwards: Vec<_> = batch.iter().rev().map(Case::pick).collect();
        backwards.reverse();
        prop_assert_eq!(&in_turn, &alone);
        prop_assert_eq!(&backwards, &alone);
    }

    /// Whole numbers below 2^20 keep every difference of logits exact, so a shift changes nothing but the scores' rounding.
    #[test]
    fn a_shift_of_all_logits_keeps_the_same_ids(mut case in cases(), shift in -64_i8..64) {
        case.settings.repetition_penalty = 1.0;
        case.settings.presence_penalty = 0.0;
        case.settings.frequency_penalty = 0.0;
        case.logits.iter_mut().for_each(|logit| *logit = logit.clamp(-1000.0, 1000.0).round());
        let kept = |case: &Case| {
            let found = case.sampler().kept_distribution(&case.logits, case.position, &case.history(), &case.not_now);
            found.map(|kept| kept.into_iter().map(|(id, _)| id).collect::<Vec<_>>())
        };
        let before = kept(&case);
        case.logits.iter_mut().for_each(|logit| *logit += shift as f32);
        prop_assert_eq!(kept(&case), before);
    }
}
