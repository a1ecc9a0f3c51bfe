//! Places, memory, readers, and the end.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Sender, channel},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use conformance::rounds::Ask;
use mlxcel_core::{
    TokenId,
    engine::{EngineError, Event, Limits, Load, Observer, Phase, SubmitError},
    sampling::Vocabulary,
    speculative::{Finish, Request, Watch},
};

use crate::{
    faulty::SteppedTarget,
    setting::{CONTEXT, End, Served, VOCAB, alone, drafter, prompt, read, target, whole, width},
};

/// Waits for something that another thread does; a test that waits too long fails.
fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} did not come");
        sleep(Duration::from_millis(1));
    }
}

/// An engine that forwards when it is told to, the way to tell it, and the prompts it saw.
fn stepped(limits: Limits) -> (Served, Sender<()>, Arc<Mutex<Vec<u32>>>) {
    let (step, steps) = channel();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let target = SteppedTarget { inner: target(), steps: Mutex::new(steps), seen: Arc::clone(&seen) };
    (Served::start(limits, Box::new(target), drafter()), step, seen)
}

fn request(ask: &Ask) -> Request {
    ask.request(&Vocabulary::all(VOCAB), Some(width(4))).unwrap()
}

#[test]
fn a_full_engine_says_so_and_a_place_comes_back() {
    let (served, step, seen) = stepped(Limits { parallel: 1, queue: 1, ..Limits::default() });
    let asks: Vec<_> = (1..4).map(|first| Ask::greedy(&prompt(first, 5), 8)).collect();
    let first = served.submit(&asks[0], 4);
    let second = served.submit(&asks[1], 4);
    let refused = served.engine.submit(request(&asks[2])).unwrap_err();
    assert!(matches!(refused, SubmitError::Full { parallel: 1, queue: 1 }), "{refused}");
    assert_eq!(refused.to_string(), "1 requests run and 1 wait: no place is left");
    // The one that waits goes; its place comes back without it ever starting.
    drop(second);
    step.send(()).unwrap();
    wait_until("the place", || {
        let _ = step.send(());
        served.engine.requests() == 0 || served.engine.requests() == 1
    });
    let third = served.submit(&asks[2], 4);
    drop(step);
    assert_eq!(whole(first).0, alone(&asks[0]));
    assert_eq!(whole(third).0, alone(&asks[2]));
    assert_eq!(*seen.lock().unwrap(), [1, 3], "the second was never forwarded");
    served.end();
}

#[test]
fn a_reader_that_goes_ends_its_request_within_a_round() {
    let (served, step, _) = stepped(Limits::default());
    let mut events = served.submit(&Ask::greedy(&prompt(1, 5), 1000), 4);
    assert!(matches!(events.blocking_recv(), Some(Event::Started { .. })));
    step.send(()).unwrap();
    assert!(matches!(events.blocking_recv(), Some(Event::Tokens { .. })));
    drop(events);
    // It waits in the forward of its first round at most.
    step.send(()).unwrap();
    wait_until("the cancellation", || served.engine.requests() == 0);
    drop(step);
    served.end();
}

#[test]
fn a_prompt_is_left_after_the_chunk_under_way() {
    let (served, step, _) = stepped(Limits::default());
    let events = served.submit(&Ask::greedy(&prompt(1, 1800), 8), 4);
    step.send(()).unwrap();
    drop(events);
    step.send(()).unwrap();
    wait_until("the cancellation", || served.engine.requests() == 0);
    drop(step);
    served.end();
}

#[test]
fn a_slow_reader_pauses_its_own_sequence_only() {
    let limits = Limits { buffer: 4, patience: Duration::from_mins(10), ..Limits::default() };
    let served = Served::start(limits, target(), drafter());
    let slow = Ask::greedy(&prompt(1, 5), 200);
    let events = served.submit(&slow, 4);
    for first in 2..6 {
        let other = Ask::greedy(&prompt(first, 5), 100);
        assert_eq!(whole(served.submit(&other, 4)).0, alone(&other));
    }
    assert_eq!(served.engine.requests(), 1, "the slow one is still there");
    assert_eq!(whole(events).0, alone(&slow), "and loses nothing");
    served.end();
}

#[test]
fn a_reader_without_end_is_dropped() {
    let limits = Limits { buffer: 2, patience: Duration::from_millis(20), ..Limits::default() };
    let served = Served::start(limits, target(), drafter());
    let ask = Ask::greedy(&prompt(1, 5), 400);
    let events = served.submit(&ask, 4);
    wait_until("the drop", || served.engine.requests() == 0);
    let (tokens, end) = read(events);
    assert!(alone(&ask).tokens.starts_with(&tokens) && tokens.len() < 400);
    assert!(matches!(end, End::Failed(EngineError::SlowReader { .. }) | End::Silence), "{end:?}");
    served.end();
}

/// The most that ran at once.
#[derive(Default)]
struct Most(AtomicUsize);

impl Observer for Most {
    fn load(&self, load: Load) {
        self.0.fetch_max(load.running, Ordering::SeqCst);
    }
}

#[test]
fn memory_is_set_aside_before_a_request_runs() {
    let ask = |first| Ask::greedy(&prompt(first, 10), 90);
    let probe = Limits { memory: 0, ..Limits::default() };
    let served = Served::start(probe, target(), drafter());
    let refused = served.engine.submit(request(&ask(1))).unwrap_err();
    let SubmitError::Memory { rows: 100, needed, limit: 0 } = refused else { panic!("{refused}") };
    served.end();

    for (memory, expected) in [(needed, 1), (2 * needed, 2), (3 * needed - 1, 2), (8 * needed, 4)] {
        let most = Arc::new(Most::default());
        let limits = Limits { memory, ..Limits::default() };
        let served = Served::watched(limits, target(), drafter(), true, Arc::<Most>::clone(&most));
        let events: Vec<_> = (1..6).map(|first| served.submit(&ask(first), 4)).collect();
        for (events, first) in events.into_iter().zip(1..) {
            assert_eq!(whole(events).0, alone(&ask(first)));
        }
        served.end();
        let most = most.0.load(Ordering::SeqCst);
        assert!(most <= expected, "{most} ran at once with {memory} bytes, {needed} a request");
    }
}

#[test]
fn an_answer_ends_with_the_context() {
    let limits = Limits { context: 64, ..Limits::default() };
    let served = Served::start(limits, target(), drafter());
    for (len, expected) in [(60, 4), (62, 2), (63, 1)] {
        let (got, report) = whole(served.submit(&Ask::greedy(&prompt(1, len), 10), 16));
        assert_eq!((got.tokens.len(), got.finish), (expected, Finish::MaxTokens));
        assert_eq!(report.prompt_tokens + report.emitted, 64);
    }
    for len in [64, 65, CONTEXT] {
        let refused = served.engine.submit(request(&Ask::greedy(&prompt(1, len), 10))).unwrap_err();
        let message = refused.to_string();
        assert!(message.contains("64") && message.contains(&len.to_string()), "{message}");
    }
    served.end();
}

#[test]
fn draining_finishes_what_is_there() {
    let (served, step, _) = stepped(Limits { parallel: 1, ..Limits::default() });
    let asks: Vec<_> = (1..3).map(|first| Ask::greedy(&prompt(first, 5), 12)).collect();
    let events: Vec<_> = asks.iter().map(|ask| served.submit(ask, 4)).collect();
    served.engine.drain();
    assert_eq!(served.engine.phase(), Phase::Draining);
    let refused = served.engine.submit(request(&asks[0])).unwrap_err();
    assert!(matches!(refused, SubmitError::Stopping), "{refused}");
    drop(step);
    for (events, ask) in events.into_iter().zip(&asks) {
        assert_eq!(whole(events).0, alone(ask));
    }
    wait_until("the end", || served.engine.phase() == Phase::Ended);
    served.end();
}

#[test]
fn aborting_ends_everything_with_a_word() {
    let (served, step, _) = stepped(Limits { parallel: 1, ..Limits::default() });
    let events: Vec<_> = (1..4).map(|first| served.submit(&Ask::greedy(&prompt(first, 5), 500), 4)).collect();
    served.engine.abort();
    drop(step);
    for events in events {
        let (_, end) = read(events);
        assert!(matches!(end, End::Failed(EngineError::Stopped)), "{end:?}");
    }
    served.end();
}

/// Counts the requests that are alive.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Watch for Alive {
    fn ends_with(&mut self, _: TokenId) -> bool {
        false
    }
}

#[test]
fn thousands_of_short_requests_leave_nothing_behind() {
    let alive = Arc::new(AtomicUsize::new(0));
    let limits = Limits { parallel: 4, ..Limits::default() };
    let served = Served::start(limits, target(), drafter());
    let mut most = 0;
    for turn in 0..500 {
        let events: Vec<_> = (0..4)
            .map(|first| {
                let mut request = request(&Ask::greedy(&prompt(first, 3), 2));
                request.watch = Some(Box::new(Alive::new(&alive)));
                served.engine.submit(request).unwrap()
            })
            .collect();
        most = most.max(alive.load(Ordering::SeqCst));
        for (first, events) in events.into_iter().enumerate() {
            // Every third reader goes before its answer.
            if (turn + first) % 3 == 0 { drop(events) } else { assert_eq!(whole(events).0.tokens.len(), 2) }
        }
    }
    wait_until("the last drop", || served.engine.requests() == 0 && alive.load(Ordering::SeqCst) == 0);
    assert!(most <= 12, "{most} were alive at once");
    served.end();
}
