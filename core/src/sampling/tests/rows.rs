//! Single rows: ties, rows that cannot be decided, log-probabilities.

use super::*;

#[test]
fn greedy_takes_the_lowest_of_equal_ids() {
    let greedy = sampler(seeded(1, 0.0), 200);
    let mut logits = vec![-1.0; 200];
    for id in [130, 70, 199] {
        logits[id] = 2.5;
    }
    assert_eq!(pick(&greedy, &logits, 0), TokenId(70));
    logits.fill(0.0);
    logits[..100].fill(-0.0);
    assert_eq!(pick(&greedy, &logits, 0), TokenId(0), "-0 and +0 are equal");
}

#[test]
fn equal_logits_rank_by_id() {
    let settings = SamplingSettings { top_k: 3, ..seeded(1, 1.0) };
    let kept =
        sampler(settings, 300).kept_distribution(&[1.0; 300], Position(0), &History::default(), &[]).unwrap();
    assert_eq!(kept, [0, 1, 2].map(|id| (TokenId(id), 1.0 / 3.0)));
}

#[test]
fn top_p_keeps_the_shortest_prefix_that_reaches_it() {
    let kept = |top_p| {
        let settings = SamplingSettings { top_p, ..seeded(1, 1.0) };
        let kept = sampler(settings, 10).kept_distribution(&[0.0; 10], Position(0), &History::default(), &[]);
        kept.unwrap().len()
    };
    assert_eq!(kept(0.3), 3, "3 of 10 are exactly 0.3");
    assert_eq!(kept(0.300_001), 4);
    assert_eq!(kept(1e-300), 1, "at least one id");
    assert_eq!(kept(1.0), 10);
}

#[test]
fn a_row_that_cannot_be_decided_fails_by_name() {
    let greedy = sampler(seeded(1, 0.0), 130);
    let refusal = |change: &dyn Fn(&mut Vec<f32>)| {
        let mut logits = vec![0.0; 130];
        change(&mut logits);
        greedy.decide(&logits, Position(17), &History::default(), &[]).unwrap_err().to_string()
    };
    let all = [
        refusal(&|logits| logits[129] = f32::NAN),
        refusal(&|logits| (logits[70], logits[71]) = (f32::INFINITY, f32::NAN)),
        refusal(&|logits| logits.fill(f32::NEG_INFINITY)),
        refusal(&|logits| logits.truncate(128)),
    ];
    insta::assert_snapshot!(all.join("\n"), @r"
    logits of position 17: id 129 is NaN, expected a finite number or -inf
    logits of position 17: id 70 is inf, expected a finite number or -inf
    logits of position 17: no id that may be emitted has a finite logit
    logits of position 17: 128 columns, expected 130
    ");
}

#[test]
fn an_unusable_logit_counts_even_where_it_may_not_be_emitted() {
    let vocabulary = Vocabulary::new(8, |id| id.0 < 6, &[]);
    let sampler = Sampler::new(seeded(1, 1.0).validate(6).unwrap(), 0, Arc::new(vocabulary));
    let mut logits = [0.0; 8];
    logits[7] = f32::NAN;
    let error = sampler.pick(&logits, Position(0), &History::default(), &[]).unwrap_err();
    assert!(matches!(error, SamplingError::NotANumber { id: TokenId(7), .. }), "{error}");
}

#[test]
fn suppression_ends_with_the_position_it_is_for() {
    let greedy = sampler(seeded(1, 0.0), 4);
    let (logits, history) = ([0.0, 3.0, 2.0, 1.0], History::default());
    let token = |suppressed: &[TokenId]| greedy.pick(&logits, Position(3), &history, suppressed);
    assert_eq!(token(&[TokenId(1)]), Ok(TokenId(2)));
    assert_eq!(token(&[]), Ok(TokenId(1)));
    assert_eq!(token(&[TokenId(1), TokenId(2), TokenId(77)]), Ok(TokenId(3)));
    assert_eq!(token(&[0, 1, 2, 3].map(TokenId)), Err(SamplingError::NoFinite { position: Position(3) }));
}

#[test]
fn choices_and_positions_have_noise_of_their_own() {
    let logits = vec![0.0; 1000];
    let tokens = |choice| {
        let settings = seeded(5, 1.0).validate(1000).unwrap();
        let sampler = Sampler::new(settings, choice, Arc::new(Vocabulary::all(1000)));
        (0..20).map(|position| pick(&sampler, &logits, position)).collect::<Vec<_>>()
    };
    assert_eq!(tokens(0), tokens(0));
    assert_ne!(tokens(0), tokens(1));
    assert_ne!(tokens(0)[0], tokens(0)[1]);
}

#[test]
fn penalties_follow_prompt_and_output() {
    let settings = SamplingSettings {
        repetition_penalty: 2.0,
        presence_penalty: 0.25,
        frequency_penalty: 0.5,
        logit_bias: vec![(TokenId(4), 1.0)],
        ..seeded(0, 1.0)
    };
    let mut history = History::new(&[TokenId(0), TokenId(1)]);
    [1, 2, 2].map(TokenId).into_iter().for_each(|token| history.push(token));
    let logits = [4.0_f32, 4.0, -1.0, 3.0, -0.5, 0.0];
    let expected = [2.0_f64, 2.0 - 0.75, -2.0 - 1.25, 3.0, 0.5, 0.0].map(f64::exp);
    let total: f64 = expected.iter().sum();
    let found = sampler(settings, 6).kept_distribution(&logits, Position(0), &history, &[]).unwrap();
    for ((id, p), expected) in found.into_iter().zip(expected) {
        assert!((p - expected / total).abs() < 1e-12, "id {id}: {p}, expected {}", expected / total);
    }
}

#[test]
fn log_probabilities_are_those_of_the_raw_logits() {
    // Probabilities 1/2, 1/4, 1/8, 1/16, 1/16; the last column is padding and id 1 is unknown.
    let logits = [0.5_f64, 0.25, 0.125, 0.0625, 0.0625].map(|p| (p.ln() + 3.0) as f32);
    let settings = SamplingSettings {
        top_k: 1,
        logit_bias: vec![(TokenId(2), 50.0)],
        logprobs: Some(2),
        ..seeded(1, 0.7)
    };
    let vocabulary = Vocabulary::new(5, |id| id.0 < 4 && id.0 != 1, &[TokenId(0)]);
    let sampler = Sampler::new(settings.validate(5).unwrap(), 0, Arc::new(vocabulary));
    let decision = sampler.decide(&logits, Position(0), &History::default(), &[]).unwrap();
    let logprobs = decision.logprobs.unwrap();
    assert_eq!(decision.token, TokenId(2));
    let near = |found: TokenLogprob, id, p: f64| {
        assert_eq!(found.token, TokenId(id));
        assert!((found.logprob - p.ln()).abs() < 1e-6, "{found:?}, expected {}", p.ln());
    };
    near(logprobs.emitted, 2, 0.125);
    assert_eq!(logprobs.top.len(), 2);
    near(logprobs.top[0], 0, 0.5);
    near(logprobs.top[1], 2, 0.125);
}

#[test]
fn log_probabilities_of_a_long_row_add_up() {
    let logits = normal_logits(3, 5000, 4.0);
    let settings = SamplingSettings { logprobs: Some(20), ..seeded(1, 1.0) };
    let sampler = sampler(settings, 5000);
    let logprobs = sampler.decide(&logits, Position(9), &History::default(), &[]).unwrap().logprobs.unwrap();
    let distribution = sampler.kept_distribution(&logits, Position(9), &History::default(), &[]).unwrap();
    let mut expected = distribution.clone();
    expected.sort_by(|a, b| b.1.total_cmp(&a.1));
    assert_eq!(logprobs.top.len(), 20);
    for (found, (id, p)) in logprobs.top.iter().zip(expected) {
        assert_eq!(found.token, id);
        assert!((found.logprob - p.ln()).abs() < 3e-7);
    }
}

#[test]
fn no_alternatives_are_listed_when_none_are_asked_for() {
    let settings = SamplingSettings { logprobs: Some(0), ..seeded(1, 0.0) };
    let decision = sampler(settings, 2).decide(&[0.0, 0.0], Position(0), &History::default(), &[]).unwrap();
    let logprobs = decision.logprobs.unwrap();
    assert!(logprobs.top.is_empty());
    assert!((logprobs.emitted.logprob + std::f64::consts::LN_2).abs() < 1e-12);
}

#[test]
fn a_crowd_of_nearly_equal_ids_is_cut_where_the_running_sum_says() {
    let columns = 40_000;
    let rows = [vec![-3.5; columns], normal_logits(3, columns, 1e-3), normal_logits(4, columns, 0.02)];
    for logits in rows {
        for (top_p, temperature) in [(0.37, 1.0), (0.9, 0.7), (0.001, 2.0)] {
            let settings = SamplingSettings { top_p, ..seeded(1, temperature) };
            let kept = sampler(settings, columns)
                .kept_distribution(&logits, Position(0), &History::default(), &[])
                .unwrap();
            // The definition: ranked by logit, then id; the shortest prefix with the mass.
            let mut ranked: Vec<usize> = (0..columns).collect();
            ranked.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
            let best = logits[ranked[0]] as f64;
            let weight = |id: &usize| ((logits[*id] as f64 - best) / temperature as f64).exp();
            let total: f64 = ranked.iter().map(weight).sum();
            let mut sum = 0.0;
            let prefix = 1 + ranked
                .iter()
                .take_while(|id| {
                    sum += weight(id);
                    sum < top_p * total
                })
                .count();
            let mut expected: Vec<usize> = ranked[..prefix].to_vec();
            expected.sort_unstable();
            let kept: Vec<usize> = kept.iter().map(|(id, _)| id.index()).collect();
            assert_eq!(kept.len(), prefix, "top_p {top_p}, T {temperature}");
            assert!(kept == expected, "top_p {top_p}, T {temperature}");
        }
    }
}
