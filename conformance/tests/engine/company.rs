//! A result is independent of who else is served.

use std::sync::Arc;

use conformance::rounds::Ask;
use mlxcel_core::{
    engine::{Event, Limits, NoObserver},
    speculative::width::SharedEvidence,
};

use crate::setting::{End, Got, Served, alone, ask, drafter, prompt, read, target, whole};

/// Requests of all kinds: lengths across chunk borders, settings mixed at random, widths from 1 to 16.
fn requests() -> Vec<(Ask, usize)> {
    let lengths = [5, 40, 1, 200, 513, 3, 17, 900];
    let widths = [8, 1, 16, 2, 4, 5, 1, 8];
    (0..lengths.len()).map(|i| (ask(i as u64 + 1, &prompt(i as u32, lengths[i])), widths[i])).collect()
}

fn together(served: &Served, requests: &[(Ask, usize)]) -> Vec<Got> {
    let events: Vec<_> = requests.iter().map(|(ask, rows)| served.submit(ask, *rows)).collect();
    events.into_iter().map(|events| whole(events).0).collect()
}

#[test]
fn one_two_and_eight_at_once_give_what_each_gives_alone() {
    let requests = requests();
    let expected: Vec<_> = requests.iter().map(|(ask, _)| alone(ask)).collect();
    assert!(expected.iter().any(|got| got.tokens.len() > 20), "some answers are long");
    for batched in [true, false] {
        let limits = Limits { parallel: 8, ..Limits::default() };
        let served = Served::watched(limits, target(), drafter(), batched, Arc::new(NoObserver));
        for size in [1, 2, 8] {
            for (group, expected) in requests.chunks(size).zip(expected.chunks(size)) {
                assert_eq!(together(&served, group), expected, "{size} at once, batched: {batched}");
            }
        }
        served.end();
    }
}

/// Whatever the clock says, and with it the widths, the tokens are the same.
#[test]
fn widths_that_are_chosen_together_change_no_token() {
    let requests = requests();
    let evidence = SharedEvidence::default();
    let served = Served::start(Limits { parallel: 8, ..Limits::default() }, target(), drafter());
    for _ in 0..3 {
        let events: Vec<_> = requests.iter().map(|(ask, _)| served.submit_adaptive(ask, &evidence)).collect();
        for (events, (ask, _)) in events.into_iter().zip(&requests) {
            assert_eq!(whole(events).0, alone(ask));
        }
    }
    assert!(evidence.lock().verify_seconds(4) > 0.0, "what forwards cost was learnt");
    served.end();
}

#[test]
fn more_requests_than_places_and_rows_are_served_in_turn() {
    let requests = requests();
    let expected: Vec<_> = requests.iter().map(|(ask, _)| alone(ask)).collect();
    for (parallel, rows) in [(1, 64), (3, 64), (8, 1), (8, 20)] {
        let limits = Limits { parallel, rows, ..Limits::default() };
        let served = Served::start(limits, target(), drafter());
        assert_eq!(together(&served, &requests), expected, "{parallel} places, {rows} rows");
        served.end();
    }
}

#[test]
fn load_that_comes_and_goes_in_the_middle_changes_nothing() {
    let served = Served::start(Limits { parallel: 8, ..Limits::default() }, target(), drafter());
    let long = Ask::greedy(&prompt(3, 1500), 60);
    let decoding = Ask::greedy(&prompt(4, 6), 300);
    let (expected_long, expected) = (alone(&long), alone(&decoding));

    let mut first = served.submit(&decoding, 8);
    let mut before = 0;
    while before < 5 {
        if let Event::Tokens { decisions, .. } = first.blocking_recv().unwrap() {
            before += decisions.len();
        }
    }
    let middle = served.submit(&long, 8);
    // More come while its prompt is being forwarded, and some go at once.
    let others: Vec<_> = (0..4).map(|i| served.submit(&Ask::greedy(&prompt(i, 30), 3), 4)).collect();
    drop(served.submit(&Ask::greedy(&prompt(9, 700), 500), 16));
    assert_eq!(whole(middle).0, expected_long);
    for (i, other) in others.into_iter().enumerate() {
        assert_eq!(whole(other).0, alone(&Ask::greedy(&prompt(i as u32, 30), 3)));
    }
    let (rest, end) = read(first);
    assert_eq!(rest, expected.tokens[before..]);
    assert!(matches!(end, End::Finished(finish, _) if finish == expected.finish), "{end:?}");
    served.end();
}

#[test]
fn speculation_goes_on_in_company() {
    let served = Served::start(Limits { parallel: 4, ..Limits::default() }, target(), drafter());
    let asks: Vec<_> = (0..4).map(|i| Ask::greedy(&prompt(i, 9), 120)).collect();
    let events: Vec<_> = asks.iter().map(|ask| served.submit(ask, 4)).collect();
    for (events, ask) in events.into_iter().zip(&asks) {
        let (got, report) = whole(events);
        assert_eq!(got, alone(ask));
        assert!(report.rounds < 100, "{} rounds for 120 tokens", report.rounds);
        assert_eq!(report.decline, None);
    }
    served.end();
}
