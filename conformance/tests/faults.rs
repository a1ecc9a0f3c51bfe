//! A drafter that fails in the middle of a request costs it the speculation, and neither the answer nor the next request.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

use std::{
    cell::Cell,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use conformance::{
    rounds::{Ask, whole_vocabulary},
    scripted::{Script, ScriptedDrafter, ScriptedTarget},
};
use mlxcel_core::{
    Error, Result, TokenId, Width,
    exactness::Gate,
    family::{Draft, Drafter, DrafterContext, DrafterSpec, Observe, Proposals},
    speculative::{Decline, Generated, Models, generate},
};
use tracing::{Event, Metadata, Subscriber, span};

const VOCAB: usize = 24;
const SCRIPT: Script = Script { seed: 11, vocab: VOCAB, agreement: 80 };

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    Error,
    NanLogits,
    /// Fewer proposals than asked for.
    Short,
    Empty,
    OnePastTheVocabulary,
    MinusOne,
    Panic,
    ObserveError,
    ObservePanic,
}

/// A drafter that fails in one round, or in all of them.
struct Faulty {
    inner: ScriptedDrafter,
    fault: Fault,
    round: Option<usize>,
    calls: Cell<usize>,
}

impl Faulty {
    fn new(fault: Fault, round: Option<usize>) -> Self {
        let inner = ScriptedDrafter::new(SCRIPT, Width::EIGHT);
        Self { inner, fault, round, calls: Cell::new(0) }
    }

    fn strikes(&self) -> bool {
        self.round.is_none_or(|round| round == self.calls.get())
    }
}

impl Drafter for Faulty {
    fn spec(&self) -> &DrafterSpec {
        self.inner.spec()
    }

    fn new_context(&self) -> DrafterContext {
        self.inner.new_context()
    }

    fn observe(&self, jobs: &mut [Observe<'_>]) -> Result<()> {
        match self.fault {
            Fault::ObserveError if self.strikes() => Err(Error::EmptySegment),
            Fault::ObservePanic if self.strikes() => panic!("planted: the drafter cannot observe"),
            _ => self.inner.observe(jobs),
        }
    }

    fn propose(&self, jobs: &mut [Draft<'_>]) -> Result<Vec<Proposals>> {
        let strikes = self.strikes();
        self.calls.set(self.calls.get() + 1);
        if !strikes {
            return self.inner.propose(jobs);
        }
        match self.fault {
            Fault::Error => return Err(Error::EmptySegment),
            Fault::Panic => panic!("planted: the drafter panics"),
            Fault::NanLogits => {
                let picked = jobs[0].pick.pick(&[f32::NAN; VOCAB])?;
                return Ok(vec![vec![picked]]);
            }
            _ => {}
        }
        let mut made = self.inner.propose(jobs)?;
        match self.fault {
            Fault::Short => made[0].truncate(5),
            Fault::Empty => made[0].clear(),
            Fault::OnePastTheVocabulary => made[0][0] = TokenId(VOCAB as u32),
            Fault::MinusOne => made[0][0] = TokenId(-1i32 as u32),
            _ => {}
        }
        Ok(made)
    }
}

/// Counts warnings.
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The answer of 60 tokens with `drafter`, and the warnings on the way.
fn answer(drafter: &dyn Drafter, width: Option<Width>) -> (Generated, usize) {
    let target = ScriptedTarget::new(SCRIPT, 512).unwrap();
    let vocabulary = whole_vocabulary(VOCAB);
    let models =
        Models { target: &target, drafter: Some(drafter), vocabulary: &vocabulary, gate: Gate::unguarded() };
    let prompt: Vec<_> = [3, 1, 4].map(TokenId).to_vec();
    let request = Ask::greedy(&prompt, 60).request(&vocabulary, width).unwrap();
    let warnings = Arc::new(AtomicUsize::new(0));
    let generated = tracing::subscriber::with_default(Warnings(Arc::clone(&warnings)), || {
        generate(models, request, &mut |_| ControlFlow::Continue(())).unwrap()
    });
    (generated, warnings.load(Ordering::SeqCst))
}

#[test]
fn a_drafter_that_fails_costs_the_speculation_and_nothing_else() {
    let healthy = Faulty::new(Fault::None, Some(0));
    let classic = answer(&healthy, None).0.tokens;
    let whole = answer(&healthy, Some(Width::EIGHT)).0;
    assert_eq!(whole.tokens, classic);
    assert!(whole.report.accepted > 10, "the drafter is of use: {:?}", whole.report);
    let lost = [
        Fault::Error,
        Fault::NanLogits,
        Fault::OnePastTheVocabulary,
        Fault::MinusOne,
        Fault::Panic,
        Fault::ObserveError,
        Fault::ObservePanic,
    ];
    for fault in lost {
        for round in [Some(2), Some(0), None] {
            let drafter = Faulty::new(fault, round);
            let (generated, warnings) = answer(&drafter, Some(Width::EIGHT));
            let place = format!("{fault:?} in round {round:?}");
            assert_eq!(generated.tokens, classic, "{place}");
            assert_eq!(generated.report.decline, Some(Decline::DrafterFailed), "{place}");
            assert_eq!(warnings, 1, "{place}");
            let observes = matches!(fault, Fault::ObserveError | Fault::ObservePanic);
            let calls = round.unwrap_or(0) + usize::from(!observes);
            assert_eq!(drafter.calls.get(), calls, "{place}: no call after the fault");
            // Nothing of it is left for the next request, but where the fault is there again.
            let (next, _) = answer(&Faulty::new(Fault::None, Some(0)), Some(Width::EIGHT));
            assert_eq!((next.tokens, next.report.decline), (classic.clone(), None), "{place}");
        }
    }
}

#[test]
fn proposals_that_are_missing_are_done_without() {
    let classic = answer(&Faulty::new(Fault::None, Some(0)), None).0.tokens;
    for fault in [Fault::Short, Fault::Empty] {
        for round in [Some(2), Some(0), None] {
            let (generated, warnings) = answer(&Faulty::new(fault, round), Some(Width::EIGHT));
            assert_eq!((generated.tokens, warnings), (classic.clone(), 0), "{fault:?} in round {round:?}");
            assert_eq!(generated.report.decline, None);
        }
    }
}
