//! An engine over a scripted pair, requests for it, and what each gives alone.

use std::sync::{Arc, LazyLock};

use conformance::{
    Failure, mixed,
    rounds::{Ask, Run, run},
    scripted::{Script, ScriptedDrafter, ScriptedTarget},
    spelling::spelled,
};
use mlxcel_core::{
    TokenId, Width,
    engine::{Engine, EngineError, EngineModels, Event, Events, Limits, NoObserver, Observer, Starting},
    exactness::Gate,
    family::{Drafter, Target},
    sampling::Vocabulary,
    speculative::{
        Finish, Models, Report, Speculation,
        width::{SharedEvidence, WidthPolicy, WidthSet},
    },
    text::TextModel,
};

pub(crate) const VOCAB: usize = 24;
pub(crate) const CONTEXT: usize = 2048;
pub(crate) const SCRIPT: Script = Script { seed: 11, vocab: VOCAB, agreement: 70 };

static TEXT: LazyLock<Arc<TextModel>> = LazyLock::new(|| spelled(VOCAB).unwrap());

pub(crate) fn width(rows: usize) -> Width {
    Width::new(rows).unwrap()
}

pub(crate) fn target() -> Box<dyn Target> {
    Box::new(ScriptedTarget::new(SCRIPT, CONTEXT).unwrap())
}

pub(crate) fn drafter() -> Box<dyn Drafter> {
    Box::new(ScriptedDrafter::new(SCRIPT, width(16)))
}

/// A prompt of `len` tokens that begins with `first`.
pub(crate) fn prompt(first: u32, len: usize) -> Vec<TokenId> {
    (0..len as u32)
        .map(|i| TokenId(if i == 0 { first } else { (i * 7 + first * 5) % VOCAB as u32 }))
        .collect()
}

/// A request with settings that `seed` mixes.
pub(crate) fn ask(seed: u64, prompt: &[TokenId]) -> Ask {
    mixed::ask(seed, prompt, VOCAB, &TEXT)
}

/// A whole answer.
#[derive(Debug, PartialEq)]
pub(crate) struct Got {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) finish: Finish,
}

/// What `ask` gives alone, decoded one token at a time.
pub(crate) fn alone(ask: &Ask) -> Got {
    let run = served_alone(ask, None);
    Got { tokens: run.tokens(), finish: run.finish }
}

/// What speculation gives for `ask` alone, with blocks of `rows` rows.
pub(crate) fn alone_at(ask: &Ask, rows: usize) -> Report {
    served_alone(ask, Some(width(rows))).report
}

fn served_alone(ask: &Ask, width: Option<Width>) -> Run {
    let (target, drafter) = (target(), drafter());
    let vocabulary = Arc::new(Vocabulary::all(VOCAB));
    let gate = Gate::unguarded();
    let models = Models { target: &*target, drafter: Some(&*drafter), vocabulary: &vocabulary, gate };
    run(models, ask, width).unwrap()
}

/// A running engine.
pub(crate) struct Served {
    pub(crate) engine: Engine,
    thread: std::thread::JoinHandle<()>,
}

impl Served {
    /// Over a scripted pair, or stand-ins for it.
    pub(crate) fn start(limits: Limits, target: Box<dyn Target>, drafter: Box<dyn Drafter>) -> Self {
        Self::watched(limits, target, drafter, true, Arc::new(NoObserver))
    }

    pub(crate) fn watched(
        limits: Limits,
        target: Box<dyn Target>,
        drafter: Box<dyn Drafter>,
        batched: bool,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let load = move || {
            let vocabulary = Arc::new(Vocabulary::all(VOCAB));
            let gate = Gate::unguarded().clone();
            let (drafter, evidence) = (Some(drafter), SharedEvidence::default());
            Ok::<_, Failure>(EngineModels { target, drafter, vocabulary, gate, evidence, batched })
        };
        let Starting { engine, loaded, thread } = Engine::start(limits, observer, load).unwrap();
        loaded.blocking_recv().unwrap().unwrap();
        Self { engine, thread }
    }

    /// Hands a request in, for blocks of `rows` rows; 1 asks for no speculation.
    pub(crate) fn submit(&self, ask: &Ask, rows: usize) -> Events {
        let width = (rows > 1).then(|| width(rows));
        self.engine.submit(ask.request(&Vocabulary::all(VOCAB), width).unwrap()).unwrap()
    }

    /// Hands a request in whose widths are chosen by what `evidence` knows.
    pub(crate) fn submit_adaptive(&self, ask: &Ask, evidence: &SharedEvidence) -> Events {
        let policy = WidthPolicy::new(evidence.clone(), &WidthSet::up_to(width(16)), width(16));
        let mut request = ask.request(&Vocabulary::all(VOCAB), None).unwrap();
        request.speculation = Speculation::Adaptive(policy);
        self.engine.submit(request).unwrap()
    }

    /// Ends the engine; nothing may be left in it.
    pub(crate) fn end(self) {
        self.engine.drain();
        self.thread.join().unwrap();
        assert_eq!(self.engine.requests(), 0);
    }
}

/// How an answer ended.
#[derive(Debug)]
pub(crate) enum End {
    Finished(Finish, Box<Report>),
    Failed(EngineError),
    /// The events ended without a word.
    Silence,
}

/// Reads all events of a request.
pub(crate) fn read(mut events: Events) -> (Vec<TokenId>, End) {
    let mut tokens = Vec::new();
    loop {
        match events.blocking_recv() {
            Some(Event::Started { .. }) => assert!(tokens.is_empty(), "it starts before its tokens"),
            Some(Event::Tokens { decisions, round }) => {
                if let Some(round) = round {
                    assert!(round.accepted <= decisions.len() && decisions.len() <= round.width);
                }
                tokens.extend(decisions.into_iter().map(|decision| decision.token));
            }
            Some(Event::Finished { finish, report }) => {
                assert!(events.blocking_recv().is_none(), "the end is the last event");
                return (tokens, End::Finished(finish, report));
            }
            Some(Event::Failed(error)) => return (tokens, End::Failed(error)),
            None => return (tokens, End::Silence),
        }
    }
}

/// A whole answer and its counters; anything else fails the test.
pub(crate) fn whole(events: Events) -> (Got, Box<Report>) {
    match read(events) {
        (tokens, End::Finished(finish, report)) => {
            assert_eq!(report.emitted, tokens.len());
            (Got { tokens, finish }, report)
        }
        (tokens, end) => panic!("after {} tokens: {end:?}", tokens.len()),
    }
}
