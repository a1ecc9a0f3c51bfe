//! A failure is one request's own.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use conformance::rounds::Ask;
use mlxcel_core::{
    engine::{EngineError, Limits},
    speculative::Decline,
};

use crate::{
    faulty::{Fault, FaultyDrafter, FaultyTarget, POISON, Place},
    setting::{End, Served, alone, drafter, prompt, read, target, whole},
};

const LIMITS: fn() -> Limits = || Limits { parallel: 4, ..Limits::default() };

/// The poisoned one in the midst of three others, and one after it.
fn asks() -> Vec<Ask> {
    [1, POISON, 2, 3].iter().map(|&first| Ask::greedy(&prompt(first, 9), 60)).collect()
}

#[test]
fn a_target_that_fails_fails_one_request() {
    let asks = asks();
    let expected: Vec<_> = asks.iter().map(alone).collect();
    for fault in [Fault::Error, Fault::Panic, Fault::Nan] {
        // In prefill, in the first round, in the middle.
        for from in [0, 9, 30] {
            for rows in [1, 4] {
                let forwards = Arc::new(AtomicUsize::new(0));
                let faulty = FaultyTarget { inner: target(), fault, from, forwards };
                let served = Served::start(LIMITS(), Box::new(faulty), drafter());
                let events: Vec<_> = asks.iter().map(|ask| served.submit(ask, rows)).collect();
                for (i, events) in events.into_iter().enumerate() {
                    if asks[i].prompt[0].0 != POISON {
                        let what = format!("{fault:?} from row {from}, {rows} rows, request {i}");
                        assert_eq!(whole(events).0, expected[i], "{what}");
                        continue;
                    }
                    let (tokens, end) = read(events);
                    assert!(expected[i].tokens.starts_with(&tokens), "what was sent before was right");
                    assert_eq!(tokens.is_empty(), from == 0);
                    let kind = matches!(&end, End::Failed(EngineError::Panicked { .. }));
                    assert!(matches!(end, End::Failed(_)) && kind == (fault == Fault::Panic), "{end:?}");
                }
                // The engine lives.
                assert_eq!(whole(served.submit(&asks[0], rows)).0, expected[0]);
                served.end();
            }
        }
    }
}

#[test]
fn a_forward_with_too_few_outputs_is_tried_again_one_by_one() {
    let asks = asks();
    let forwards = Arc::new(AtomicUsize::new(0));
    let faulty = FaultyTarget { inner: target(), fault: Fault::OneShort, from: 20, forwards };
    let served = Served::start(LIMITS(), Box::new(faulty), drafter());
    let events: Vec<_> = asks.iter().map(|ask| served.submit(ask, 4)).collect();
    for (events, ask) in events.into_iter().zip(&asks) {
        if ask.prompt[0].0 == POISON {
            assert!(matches!(read(events).1, End::Failed(EngineError::Failed { .. })));
        } else {
            assert_eq!(whole(events).0, alone(ask));
        }
    }
    served.end();
}

#[test]
fn a_drafter_that_fails_costs_one_request_its_speculation() {
    let asks = asks();
    let expected: Vec<_> = asks.iter().map(alone).collect();
    let faults = [
        (Place::Propose, Fault::Error),
        (Place::Propose, Fault::Panic),
        (Place::Propose, Fault::Nan),
        (Place::Propose, Fault::OneShort),
        (Place::Observe, Fault::Error),
        (Place::Observe, Fault::Panic),
        (Place::ObserveLate, Fault::Error),
    ];
    for (place, fault) in faults {
        for from in [9, 25] {
            let calls = Arc::new(AtomicUsize::new(0));
            let faulty = FaultyDrafter { inner: drafter(), fault, place, from, calls: Arc::clone(&calls) };
            let served = Served::start(LIMITS(), target(), Box::new(faulty));
            let events: Vec<_> = asks.iter().map(|ask| served.submit(ask, 4)).collect();
            for (i, events) in events.into_iter().enumerate() {
                let what = format!("{place:?} {fault:?} from row {from}, request {i}");
                let (got, report) = whole(events);
                assert_eq!(got, expected[i], "{what}");
                let poisoned = asks[i].prompt[0].0 == POISON;
                // Rows that were all taken in before the failure are as good as if it had not failed.
                let forgiven = place == Place::ObserveLate;
                let declined = report.decline == Some(Decline::DrafterFailed);
                assert_eq!(declined, poisoned && !forgiven, "{what}: {:?}", report.decline);
                assert!(poisoned || report.rounds < 55, "{what}: {} rounds", report.rounds);
            }
            // Together, alone, and never again.
            let calls = calls.load(Ordering::SeqCst);
            assert!(
                place == Place::ObserveLate || (1..=2).contains(&calls),
                "{place:?} {fault:?}: {calls} calls"
            );
            served.end();
        }
    }
}
