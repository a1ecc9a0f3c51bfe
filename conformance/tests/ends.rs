//! Ends of an answer, however its tokens fall into rounds: the first token alone, then a block of right proposals a round.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

use conformance::{
    Guided,
    exactness::same_run,
    rounds::{Ask, Run, Spelled, run, whole_vocabulary},
    scripted::{Script, ScriptedDrafter, SpokenTarget},
    spelling::spelled_as,
};
use mlxcel_core::{
    TokenId, Width,
    exactness::Gate,
    sampling::SamplingSettings,
    speculative::{Finish, Models},
};

const VOCAB: usize = 64;
/// Rows of a block.
const WIDTH: usize = 16;
const PROMPT: [u32; 3] = [5, 6, 7];

fn ids(raw: &[u32]) -> Vec<TokenId> {
    raw.iter().copied().map(TokenId).collect()
}

/// What a target that says `answer` makes of `ask`, with `right` right proposals in its rounds, checked against classic
/// decoding.
fn said(answer: &[u32], ask: &Ask, right: &[usize]) -> Run {
    let target = SpokenTarget::new(PROMPT.len(), &ids(answer), VOCAB).unwrap();
    let vocabulary = whole_vocabulary(VOCAB);
    let drafter = ScriptedDrafter::new(Script { seed: 1, vocab: VOCAB, agreement: 0 }, width());
    let drafter = Guided::new(Box::new(drafter), PROMPT.len(), &ids(answer), VOCAB, right);
    let models =
        Models { target: &target, drafter: Some(&drafter), vocabulary: &vocabulary, gate: Gate::unguarded() };
    let classic = run(models, ask, None).unwrap();
    let speculative = run(models, ask, Some(width())).unwrap();
    same_run(&speculative, &classic).unwrap();
    speculative
}

fn width() -> Width {
    Width::new(WIDTH).unwrap()
}

fn asked(max_tokens: usize) -> Ask {
    Ask::greedy(&ids(&PROMPT), max_tokens)
}

/// Every way to cut `n` tokens after the first into rounds, as right proposals of each.
fn cuts(n: usize) -> Vec<Vec<usize>> {
    let cut = |pattern: usize| {
        let mut rounds = vec![0];
        for at in 1..n {
            match pattern >> (at - 1) & 1 {
                0 => rounds.last_mut().into_iter().for_each(|count| *count += 1),
                _ => rounds.push(0),
            }
        }
        rounds
    };
    (0..1 << n.saturating_sub(1)).map(cut).collect()
}

/// An end token and the budget in one block: whichever comes first in the answer decides.
#[test]
fn an_end_token_and_the_budget_in_one_block() {
    const END: u32 = 50;
    const OTHER: u32 = 51;
    let whole = [31, 47, END, 58, 60, 12];
    for (max_tokens, kept, finish) in [
        (1, 1, Finish::MaxTokens),
        (2, 2, Finish::MaxTokens),
        (3, 3, Finish::Eos),
        (5, 3, Finish::Eos),
        (6, 3, Finish::Eos),
        (100, 3, Finish::Eos),
    ] {
        let ask = Ask { eos: ids(&[END, OTHER]), ..asked(max_tokens) };
        for right in cuts(5) {
            let run = said(&whole, &ask, &right);
            assert_eq!((run.tokens(), run.finish), (ids(&whole[..kept]), finish), "{max_tokens}, {right:?}");
            assert_eq!(run.report.emitted, kept);
        }
    }
    let ask = Ask { eos: ids(&[END, OTHER]), ..asked(40) };
    for (answer, kept) in [
        (&[END, 58, 60][..], 1),
        // The target's own token after proposals that were all right.
        (&[31, 32, 33, 34, END, 58], 5),
        (&[31, OTHER, END, 58], 2),
        (&[31, END, OTHER, 58], 2),
    ] {
        for right in cuts(4) {
            let run = said(answer, &ask, &right);
            assert_eq!(
                (run.tokens(), run.finish),
                (ids(&answer[..kept]), Finish::Eos),
                "{answer:?}, {right:?}"
            );
        }
    }
    // The first token comes from the prompt's forward: no round is begun after it.
    assert_eq!(said(&[END, 58], &ask, &[8]).rounds, []);
}

/// What comes of `words` as an answer, with stop strings: the text, the tokens kept, and why it ended.
fn stopped(words: &[&[u8]], stops: &[&str], right: &[usize]) -> (String, usize, Finish) {
    // A word may occur twice and is one token then.
    let mut vocabulary: Vec<&[u8]> = Vec::new();
    let answer: Vec<u32> = words
        .iter()
        .map(|word| {
            let known = vocabulary.iter().position(|other| other == word);
            known.unwrap_or_else(|| {
                vocabulary.push(word);
                vocabulary.len() - 1
            }) as u32
        })
        .collect();
    let end = 63;
    let answer = [answer.as_slice(), &[end]].concat();
    let text = spelled_as(&vocabulary, VOCAB).unwrap();
    let stops = stops.iter().map(|&stop| stop.to_owned()).collect();
    let sampling = SamplingSettings { temperature: 0.0, logprobs: Some(1), ..SamplingSettings::default() };
    let spelled = Some(Spelled { text, stops });
    let ask = Ask { spelled, sampling, eos: ids(&[end]), ..asked(30) };
    let run = said(&answer, &ask, right);
    assert!(run.decisions.iter().all(|decision| decision.logprobs.is_some()));
    (run.text, run.decisions.len(), run.finish)
}

/// Words of an answer, stop strings, and what comes of them: text, tokens, end.
type Stopped<'a> = (&'a [&'a [u8]], &'a [&'a str], &'a str, usize, Finish);

/// A stop string is found wherever it falls, and the answer ends with the token that completes it.
#[test]
fn stop_strings_in_wide_blocks() {
    let long: [&[u8]; 9] =
        [b"He", b"llo ", b"STOP", b" and", b" much", b" more", b" text", b" here", b" again"];
    let lists: [&[&[u8]]; 3] =
        [&[b"one", b", two", b"; three"], &[b"ab", b"c#", b"#", b"#d"], &[b"The ", b"EN", b"D"]];
    let split: [&[u8]; 2] = [b"\xE7\xB5", b"\x82"];
    let false_start: [&[u8]; 3] = [b"ab", b"ab", b"abc"];
    let cases: [Stopped<'_>; 7] = [
        (&long, &["STOP"], "Hello ", 3, Finish::Stop),
        // The first in the text wins, whatever the order of the list.
        (lists[0], &[";", ","], "one", 2, Finish::Stop),
        (lists[0], &[",", ";"], "one", 2, Finish::Stop),
        (lists[1], &["###"], "abc", 4, Finish::Stop),
        // Held back as a beginning, and given out when the answer ends: four tokens with the end token.
        (lists[2], &["END!!"], "The END", 4, Finish::Eos),
        (&split, &["終"], "", 2, Finish::Stop),
        (&false_start, &["abc"], "abab", 3, Finish::Stop),
    ];
    for (words, stops, text, tokens, finish) in cases {
        for right in cuts(words.len()) {
            assert_eq!(
                stopped(words, stops, &right),
                (text.to_owned(), tokens, finish),
                "{stops:?}, {right:?}"
            );
        }
    }
}

/// A bias counts at every place of a block: a banned token never appears, though an accepted block would hold it.
#[test]
fn a_bias_counts_at_every_place_of_a_block() {
    let answer = [31, 32, 33, 34, 35, 36, 37, 38];
    for place in 0..answer.len() {
        let mut ask = asked(answer.len());
        ask.sampling.logit_bias = vec![(TokenId(answer[place]), -100.0)];
        for right in [vec![15], vec![2, 3], vec![0]] {
            let tokens = said(&answer, &ask, &right).tokens();
            assert!(!tokens.contains(&TokenId(answer[place])), "{place}: {tokens:?}");
            assert_eq!(tokens[..place], ids(&answer[..place]));
        }
    }
}

/// Every token has its log-probabilities, whatever round it came in: finite, at most 0, the likeliest first.
#[test]
fn log_probabilities_of_every_token_of_a_block() {
    let answer: Vec<u32> = (20..52).collect();
    for count in [0, 3, 20] {
        for temperature in [0.0, 0.8] {
            let mut ask = asked(32);
            ask.sampling.logprobs = Some(count);
            ask.sampling.temperature = temperature;
            ask.sampling.seed = Some(7u64.into());
            let run = said(&answer, &ask, &[3, 15, 0]);
            assert_eq!(run.decisions.len(), 32);
            let mut some = false;
            for decision in &run.decisions {
                let logprobs = decision.logprobs.as_ref().unwrap();
                let emitted = logprobs.emitted;
                assert!(
                    emitted.token == decision.token && emitted.logprob <= 0.0 && emitted.logprob.is_finite()
                );
                some |= emitted.logprob < 0.0;
                assert_eq!(logprobs.top.len(), count);
                assert!(logprobs.top.windows(2).all(|pair| pair[0].logprob >= pair[1].logprob));
                if let Some(first) = logprobs.top.first().filter(|_| temperature == 0.0) {
                    assert_eq!(*first, emitted);
                }
            }
            assert!(some, "all log-probabilities are 0");
        }
    }
}
