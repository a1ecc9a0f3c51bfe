//! Requests with all settings mixed at random, from a seed.

use std::sync::Arc;

use mlxcel_core::{
    TokenId, Width,
    exactness::Gate,
    sampling::{SamplingSettings, Seed, Vocabulary},
    text::TextModel,
};

use crate::{
    At as _, Check, Failure, Guided,
    exactness::{same_as_classic, same_run},
    pair::Pair,
    random::{Numbers, tokens},
    rounds::{Ask, Spelled, run},
    spelling::{STOPS, spelled},
};

/// A request that sets a bit of everything: `prompt` and what `seed` makes of all other fields, for a vocabulary of
/// `vocab` ids whose texts are `text`.
pub fn ask(seed: u64, prompt: &[TokenId], vocab: usize, text: &Arc<TextModel>) -> Ask {
    let numbers = &mut Numbers::new(seed ^ 0x006D_6978_6564);
    let max_tokens = numbers.below(40);
    let some = |numbers: &mut Numbers, most: usize| {
        let count = numbers.below(most + 1);
        tokens(numbers.next_u64(), count, vocab)
    };
    let sampling = sampling(numbers, vocab);
    let min_tokens = if numbers.below(3) == 0 { numbers.below(12).min(max_tokens) } else { 0 };
    let eos = if numbers.below(3) == 0 { some(numbers, 3) } else { Vec::new() };
    let stops = match numbers.below(3) {
        0 => (0..=numbers.below(4)).map(|_| STOPS[numbers.below(STOPS.len())].to_owned()).collect(),
        _ => Vec::new(),
    };
    let stop_after = (stops.is_empty() && numbers.below(6) == 0).then(|| 1 + numbers.below(30));
    let spelled = Some(Spelled { text: Arc::clone(text), stops });
    let choice = numbers.below(3) as u64;
    Ask { prompt: prompt.to_vec(), sampling, choice, max_tokens, min_tokens, eos, stop_after, spelled }
}

fn sampling(numbers: &mut Numbers, vocab: usize) -> SamplingSettings {
    let mut between =
        |low: f64, high: f64| low + (high - low) * numbers.below(1 << 20) as f64 / f64::from(1 << 20);
    let filters = [between(0.0, 1.0), between(0.3, 1.0), between(0.0, 0.3)];
    let (temperature, repetition) = (between(0.3, 1.6) as f32, between(0.7, 1.8) as f32);
    let (presence, frequency) = (between(-1.5, 1.5) as f32, between(-0.8, 0.8) as f32);
    let biases: Vec<_> = (0..4).map(|_| between(-3.0, 3.0) as f32).collect();
    let mut on = |of: usize| numbers.below(of) > 0;
    let mut settings = SamplingSettings { temperature: 0.0, ..SamplingSettings::default() };
    if on(3) {
        settings.temperature = temperature;
    }
    if on(2) {
        settings.top_k = 1 + (filters[0] * vocab as f64) as usize;
    }
    if on(2) {
        settings.top_p = filters[1];
    }
    if on(2) {
        settings.min_p = filters[2];
    }
    if on(2) {
        settings.repetition_penalty = repetition;
    }
    if on(2) {
        settings.presence_penalty = presence;
    }
    if on(2) {
        settings.frequency_penalty = frequency;
    }
    settings.logprobs = on(2).then(|| numbers.below(5));
    let biased = numbers.below(4);
    let ids = tokens(numbers.next_u64(), biased, vocab);
    settings.logit_bias = ids.into_iter().zip(biases).collect();
    // A ban, as clients write it.
    if numbers.below(4) == 0 {
        settings.logit_bias.push((TokenId(numbers.below(vocab) as u32), -100.0));
    }
    settings.seed = Some(Seed(numbers.next_u64()));
    settings
}

/// A vocabulary of `columns` ids of which some, by `seed`, are suppressed or unknown to the tokenizer; or all of them.
pub fn vocabulary(seed: u64, columns: usize) -> Arc<Vocabulary> {
    let mut numbers = Numbers::new(seed ^ 0x0076_6F63_6162);
    if numbers.below(2) == 0 {
        return Arc::new(Vocabulary::all(columns));
    }
    let end = columns - numbers.below(columns / 4);
    let hole = TokenId(numbers.below(columns) as u32);
    let count = numbers.below(3);
    let suppressed = tokens(numbers.next_u64(), count, columns);
    Arc::new(Vocabulary::new(columns, |id| id.index() < end && id != hole, &suppressed))
}

/// Speculative = classic at every width, with all settings mixed at random, by the pair's own drafter and by one that is
/// right most of the time: ids, log-probabilities, finish and state.
pub fn mixed_of(mut pair: Pair, seed: u64, cases: u64) -> Result<Pair, Failure> {
    let vocab = pair.target.spec().vocab;
    let text = spelled(vocab)?;
    let widths: Vec<_> = (1..=pair.drafter.spec().trained_width.rows()).filter_map(Width::new).collect();
    for case in 0..cases {
        let case = seed * cases + case;
        pair.vocabulary = vocabulary(case, vocab);
        let prompt = tokens(case, 1 + (case as usize * 5) % 23, vocab);
        let ask = ask(case, &prompt, vocab, &text);
        let place = format!("case {case}");
        same_as_classic(pair.models(), &ask, &widths).at(&place)?;
        pair = guided(pair, &ask, &widths).at(&place)?;
    }
    Ok(pair)
}

/// As [`same_as_classic`], with a drafter that is right for 0, 1, … proposals in turn.
fn guided(mut pair: Pair, ask: &Ask, widths: &[Width]) -> Result<Pair, Failure> {
    let classic = run(pair.models(), ask, None)?;
    let right: Vec<_> = (0..=widths.len()).rev().collect();
    for width in widths {
        let vocab = pair.target.spec().vocab;
        let guided = Guided::new(pair.drafter, ask.prompt.len(), &classic.tokens(), vocab, &right);
        let models = mlxcel_core::speculative::Models {
            target: pair.target.as_ref(),
            drafter: Some(&guided),
            vocabulary: &pair.vocabulary,
            gate: Gate::unguarded(),
        };
        let checked: Check = run(models, ask, Some(*width))
            .and_then(|found| same_run(&found, &classic))
            .at(format_args!("guided, width {width}"));
        pair.drafter = guided.into_inner();
        checked?;
    }
    Ok(pair)
}
