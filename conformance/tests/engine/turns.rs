//! Whose turn it is: long prompts come in pieces, and families that take one segment at a time serve all in turn.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use conformance::rounds::Ask;
use mlxcel_core::{
    Error, Result, Width,
    engine::{Event, Limits, NoObserver},
    family::{
        Draft, Drafter, DrafterContext, DrafterSpec, Observe, Output, Proposals, Segment, Target, TargetSpec,
    },
    nn::{Embedding, Linear},
    speculative::{Decline, Report, width::SharedEvidence},
    state::SequenceState,
};

use crate::{
    faulty::{Fault, FaultyDrafter, POISON, Place},
    setting::{Served, alone, alone_at, drafter, prompt, read, target, whole},
};

/// Rows of a prompt that are forwarded, and observed, in one tick.
const CHUNK: usize = 512;

/// Where the rows of a job begin, and how many there are, by job and by call.
type Calls = Arc<Mutex<Vec<Vec<(usize, usize)>>>>;

/// A drafter that remembers what it was shown.
struct Recorded {
    inner: Box<dyn Drafter>,
    calls: Calls,
}

impl Drafter for Recorded {
    fn spec(&self) -> &DrafterSpec {
        self.inner.spec()
    }

    fn new_context(&self) -> DrafterContext {
        self.inner.new_context()
    }

    fn observe(&self, jobs: &mut [Observe<'_>]) -> Result<()> {
        let call = jobs.iter().map(|job| (job.start.0, job.taps.rows())).collect();
        self.calls.lock().unwrap().push(call);
        self.inner.observe(jobs)
    }

    fn propose(&self, jobs: &mut [Draft<'_>]) -> Result<Vec<Proposals>> {
        self.inner.propose(jobs)
    }
}

/// What speculation gave, without times.
fn counts(report: &Report) -> (usize, usize, Vec<usize>, Vec<usize>) {
    let by_position = (report.proposed_by_position.clone(), report.accepted_by_position.clone());
    (report.rounds, report.accepted, by_position.0, by_position.1)
}

#[test]
fn a_long_prompt_is_observed_in_pieces_and_whole() {
    let calls = Calls::default();
    let recorded = Recorded { inner: drafter(), calls: Arc::clone(&calls) };
    let served = Served::start(Limits::default(), target(), Box::new(recorded));
    let (decoding, long) = (Ask::greedy(&prompt(4, 6), 600), Ask::greedy(&prompt(3, 1800), 40));
    let mut first = served.submit(&decoding, 4);
    assert!(matches!(first.blocking_recv(), Some(Event::Started { .. })));
    assert!(matches!(first.blocking_recv(), Some(Event::Tokens { .. })));
    let (got, report) = whole(served.submit(&long, 4));
    assert_eq!(got, alone(&long));
    // A drafter that knew less of the prompt would propose otherwise.
    assert_eq!(counts(&report), counts(&alone_at(&long, 4)));
    read(first);
    served.end();

    let calls = calls.lock().unwrap();
    let rows = |call: &[(usize, usize)]| call.iter().map(|(_, rows)| rows).sum::<usize>();
    assert!(calls.iter().all(|call| rows(call) <= CHUNK), "{calls:?}");
    let of_prompt = |call: &[(usize, usize)]| call.iter().any(|(_, rows)| *rows > 16);
    let places: Vec<_> = (0..calls.len()).filter(|&at| of_prompt(&calls[at])).collect();
    let pieces: Vec<_> = places.iter().map(|&at| calls[at].clone()).collect();
    assert_eq!(pieces, [[(0, 512)], [(512, 512)], [(1024, 512)], [(1536, 264)]]);
    assert!(
        places.windows(2).all(|pair| pair[1] > pair[0] + 1),
        "the other one has no round between: {places:?}"
    );
}

/// With widths that are chosen, the reader of a long prompt's answer need not wait until the drafter has seen all of it.
#[test]
fn an_answer_goes_on_while_the_drafter_is_shown_its_prompt() {
    let calls = Calls::default();
    let recorded = Recorded { inner: drafter(), calls: Arc::clone(&calls) };
    let served = Served::start(Limits::default(), target(), Box::new(recorded));
    // As known before the first round: blocks cost no more than a row, and showing costs next to nothing.
    let evidence = SharedEvidence::default();
    for rows in [1, 2, 4, 8, 16].repeat(20) {
        let mut evidence = evidence.lock();
        evidence.verified(rows, 1.0);
        evidence.drafted(rows.max(2) - 1, 0.001);
        evidence.observed(512, 0.001);
    }
    let ask = Ask::greedy(&prompt(3, 1800), 40);
    let mut events = served.submit_adaptive(&ask, &evidence);
    let mut first = None;
    let mut tokens = Vec::new();
    while let Some(event) = events.blocking_recv() {
        if let Event::Tokens { decisions, round } = event {
            first = first.or(round);
            tokens.extend(decisions.iter().map(|decision| decision.token));
        }
    }
    served.end();
    assert_eq!(tokens, alone(&ask).tokens);
    assert_eq!(first.map(|round| round.width), Some(1), "its first round waited for the drafter");
    assert_eq!(calls.lock().unwrap().first(), Some(&vec![(0, CHUNK)]));
}

#[test]
fn short_prompts_that_come_together_are_observed_together() {
    let calls = Calls::default();
    let recorded = Recorded { inner: drafter(), calls: Arc::clone(&calls) };
    let served = Served::start(Limits { parallel: 8, ..Limits::default() }, target(), Box::new(recorded));
    let asks: Vec<_> = (0..8).map(|first| Ask::greedy(&prompt(first, 200), 20)).collect();
    let events: Vec<_> = asks.iter().map(|ask| served.submit(ask, 8)).collect();
    for (events, ask) in events.into_iter().zip(&asks) {
        let (got, report) = whole(events);
        assert_eq!((got, counts(&report)), (alone(ask), counts(&alone_at(ask, 8))));
    }
    served.end();
    let calls = calls.lock().unwrap();
    assert!(calls.iter().all(|call| call.iter().map(|(_, rows)| rows).sum::<usize>() <= CHUNK), "{calls:?}");
}

#[test]
fn a_drafter_that_fails_within_a_prompt_costs_that_request_its_speculation() {
    for (place, fault) in [(Place::Observe, Fault::Error), (Place::Observe, Fault::Panic)] {
        let faulty = FaultyDrafter { inner: drafter(), fault, place, from: 600, calls: Arc::default() };
        let served = Served::start(Limits::default(), target(), Box::new(faulty));
        let asks = [1, POISON, 2].map(|first| Ask::greedy(&prompt(first, 1300), 30));
        let events: Vec<_> = asks.iter().map(|ask| served.submit(ask, 4)).collect();
        for (events, ask) in events.into_iter().zip(&asks) {
            let (got, report) = whole(events);
            assert_eq!(got, alone(ask), "{fault:?}");
            let poisoned = ask.prompt[0].0 == POISON;
            assert_eq!(report.decline, poisoned.then_some(Decline::DrafterFailed), "{fault:?}");
            assert!(poisoned || counts(&report) == counts(&alone_at(ask, 4)), "{fault:?}: {report:?}");
        }
        served.end();
    }
}

/// A target that takes one segment at a time, and remembers whose rows it forwarded: the first tokens of the prompts.
struct OneAtATime {
    inner: Box<dyn Target>,
    spec: TargetSpec,
    turns: Arc<Mutex<Vec<u32>>>,
    /// Forwards over several segments, which were refused: each would be tried again alone.
    refused: Arc<AtomicUsize>,
}

impl Target for OneAtATime {
    fn spec(&self) -> &TargetSpec {
        &self.spec
    }

    fn new_state(&self, slack: Width) -> SequenceState {
        self.inner.new_state(slack)
    }

    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
        let [segment] = segments else {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(Error::Shape { what: "segments of a forward", found: segments.len(), expected: 1 });
        };
        if !segment.state.is_empty() {
            let first = segment.state.layer(0)?.contents()?[0];
            self.turns.lock().unwrap().push(first as u32);
        }
        self.inner.forward(segments)
    }

    fn embedding(&self) -> Embedding {
        self.inner.embedding()
    }

    fn head(&self) -> Linear {
        self.inner.head()
    }
}

#[test]
fn a_family_that_takes_one_segment_at_a_time_serves_all_in_turn() {
    // Whether the executor would let rows share a forward makes no difference.
    for batched in [true, false] {
        let (turns, refused) = (Arc::default(), Arc::default());
        let spec = TargetSpec { supports_batched: false, ..target().spec().clone() };
        let (inner, seen, counted) = (target(), Arc::clone(&turns), Arc::clone(&refused));
        let single = OneAtATime { inner, spec, turns: seen, refused: counted };
        let served =
            Served::watched(Limits::default(), Box::new(single), drafter(), batched, Arc::new(NoObserver));
        let widths = [1, 4, 1, 8];
        let asks: Vec<_> = (0..4).map(|first| Ask::greedy(&prompt(first, 5), 150)).collect();
        let events: Vec<_> = asks.iter().zip(widths).map(|(ask, width)| served.submit(ask, width)).collect();
        for (events, ask) in events.into_iter().zip(&asks) {
            let (got, report) = whole(events);
            assert_eq!(got, alone(ask));
            assert!(!matches!(report.decline, Some(Decline::DrafterFailed)), "{:?}", report.decline);
        }
        served.end();
        assert_eq!(refused.load(Ordering::SeqCst), 0, "several segments came at once, batched: {batched}");

        // While all four are there, none is ahead by more than a round, wherever a tick begins.
        let turns = turns.lock().unwrap();
        let mut had = BTreeMap::<u32, usize>::new();
        let ends = (0..4).map(|one| turns.iter().rposition(|&turn| turn == one).unwrap()).min().unwrap();
        let starts = (0..4).map(|one| turns.iter().position(|&turn| turn == one).unwrap()).max().unwrap();
        assert!(ends > starts + 20, "they were not there together: {turns:?}");
        for turn in &turns[starts + 1..ends] {
            *had.entry(*turn).or_default() += 1;
            let counts: Vec<_> = (0..4).map(|one| had.get(&one).copied().unwrap_or_default()).collect();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            assert!(most - least <= 2, "{counts:?} rounds each, batched: {batched}");
        }
    }
}
