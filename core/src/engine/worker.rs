//! The engine's thread: requests in, ticks, events out.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    },
    time::{Duration, Instant},
};

use super::{
    Ended, EngineError, Event, Load, Observer, Phase, Ready,
    batch::{self, Tick},
    guard::guarded,
    handle::{Message, Room, Shared, Submission},
    session::Session,
};
use crate::{
    Width,
    exactness::Gate,
    family::{Drafter, Target, forward_one},
    nn::Tensor,
    sampling::Vocabulary,
    speculative::{Models, Report, Sequence, Step, width::SharedEvidence},
};

/// How often readers are looked at while nothing can run without them.
const LOOK: Duration = Duration::from_millis(5);

/// The models of an engine.
pub struct EngineModels {
    /// The target.
    pub target: Box<dyn Target>,
    /// Its drafter, if there is one.
    pub drafter: Option<Box<dyn Drafter>>,
    /// The ids that may be emitted.
    pub vocabulary: Arc<Vocabulary>,
    /// Which widths may run.
    pub gate: Gate,
    /// What is known of the pair's costs and acceptance; what requests teach is added to it.
    pub evidence: SharedEvidence,
    /// Whether the segments of several sequences may share a forward: whether a row's bits are the same in any company.
    pub batched: bool,
}

impl EngineModels {
    fn models(&self) -> Models<'_> {
        Models {
            target: self.target.as_ref(),
            drafter: self.drafter.as_deref(),
            vocabulary: &self.vocabulary,
            gate: &self.gate,
        }
    }
}

/// What the thread owns.
pub(super) struct Worker {
    models: EngineModels,
    shared: Arc<Shared>,
    inbox: Receiver<Message>,
    observer: Arc<dyn Observer>,
    waiting: VecDeque<Submission>,
    running: Vec<Session>,
    /// Where the next tick begins among the running ones, so that none is always last.
    turn: usize,
    load: Load,
    /// Whether no handle is left.
    alone: bool,
}

impl Worker {
    pub(super) fn new(
        models: EngineModels,
        shared: Arc<Shared>,
        inbox: Receiver<Message>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            models,
            shared,
            inbox,
            observer,
            waiting: VecDeque::new(),
            running: Vec::new(),
            turn: 0,
            load: Load::default(),
            alone: false,
        }
    }

    /// What is known of the models.
    pub(super) fn ready(&self) -> Ready {
        let target = self.models.target.spec().clone();
        let drafter = self.models.drafter.as_ref().map(|drafter| drafter.spec().clone());
        let slack = drafter.as_ref().map_or(Width::ONE, |spec| spec.trained_width);
        let limits = self.shared.limits;
        let context = target.context.min(limits.context);
        let state = self.models.target.new_state(slack);
        let own = self.models.drafter.as_ref().map(|drafter| drafter.new_context());
        let bytes = |rows| {
            let observed = own.as_ref().map_or(0, |own| own.bytes(rows));
            // The taps of a prompt wait until its first token is out.
            let taps = drafter.as_ref().map_or(0, |spec| spec.taps.len() * spec.hidden * size_of::<f32>());
            state.bytes(rows) + observed + taps * rows
        };
        // States grow evenly up to a bound, so the first row's growth and the bound are no estimate too low.
        let start = bytes(0);
        let room = Room { start, row: bytes(1) - start, most: bytes(context) };
        Ready {
            target,
            drafter,
            vocabulary: Arc::clone(&self.models.vocabulary),
            gate: self.models.gate.clone(),
            evidence: self.models.evidence.clone(),
            context,
            limits,
            room,
        }
    }

    /// Serves until it is told to stop, or no handle is left and nothing to do.
    pub(super) fn run(mut self) {
        while self.receive() {
            self.drop_gone();
            self.admit();
            // Before anybody hears of a token, so that who hears of one finds its request counted.
            self.tell_load();
            self.rounds();
            self.prefill();
            self.tell_load();
        }
        self.stop();
    }

    /// Takes what has come; waits if there is nothing else to do. False when the thread is to end.
    fn receive(&mut self) -> bool {
        loop {
            if self.shared.is_aborted() {
                return false;
            }
            let idle = self.running.is_empty() && self.waiting.is_empty();
            // What was handed in before is taken first.
            let last = idle && (self.alone || self.shared.phase() == Phase::Draining);
            let stuck = !idle && !self.running.iter().any(Session::may_run) && !self.may_admit();
            let message = if last {
                self.inbox.try_recv()
            } else if idle {
                self.inbox.recv().map_err(|_| TryRecvError::Disconnected)
            } else if stuck {
                self.inbox.recv_timeout(LOOK).map_err(|error| match error {
                    RecvTimeoutError::Timeout => TryRecvError::Empty,
                    RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
                })
            } else {
                self.inbox.try_recv()
            };
            match message {
                Ok(Message::Submit(submission)) => self.waiting.push_back(*submission),
                Ok(Message::Wake) => {}
                Err(_) if last => return false,
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => {
                    if stuck {
                        std::thread::sleep(LOOK);
                    }
                    self.alone = true;
                    if !idle {
                        return true;
                    }
                }
            }
        }
    }

    /// Drops requests whose reader has gone, and those whose reader takes nothing.
    fn drop_gone(&mut self) {
        let (observer, patience) = (self.observer.as_ref(), self.shared.limits.patience);
        self.waiting.retain(|submission| {
            let gone = submission.events.is_closed();
            if gone {
                observer.ended(&Ended::Cancelled, &Report::default(), submission.submitted.elapsed());
            }
            !gone
        });
        self.running.retain_mut(|session| {
            if session.is_cancelled() {
                session.cancelled(observer);
                return false;
            }
            if session.is_stalled(patience) {
                session.fail(EngineError::SlowReader { waited: patience }, observer);
                return false;
            }
            true
        });
    }

    fn bytes(&self) -> usize {
        self.running.iter().map(|session| session.bytes).sum()
    }

    /// Whether the first of those that wait finds a place and memory. Nobody overtakes it.
    fn may_admit(&self) -> bool {
        let limits = &self.shared.limits;
        self.waiting.front().is_some_and(|first| {
            self.running.len() < limits.parallel.max(1) && self.bytes() + first.bytes <= limits.memory
        })
    }

    fn admit(&mut self) {
        while self.may_admit() {
            let Some(submission) = self.waiting.pop_front() else { return };
            let Submission { request, events, bytes, submitted, place } = submission;
            let models = self.models.models();
            let sequence = guarded(|| Sequence::new(models, request));
            match sequence {
                Ok(sequence) => {
                    let mut session = Session::new(sequence, events, bytes, submitted, place);
                    session.started(self.observer.as_ref());
                    // An answer of no tokens is complete at once.
                    session.emit(Vec::new(), None, self.observer.as_ref());
                    if !session.over {
                        self.running.push(session);
                    }
                }
                Err(error) => {
                    let how = Ended::Failed(&error);
                    self.observer.ended(&how, &Report::default(), submitted.elapsed());
                    let _ = events.try_send(Event::Failed(error));
                }
            }
        }
    }

    /// One round of every sequence that is in one.
    fn rounds(&mut self) {
        let count = self.running.len();
        if count == 0 {
            return;
        }
        self.turn = (self.turn + 1) % count;
        let tick = Tick {
            models: self.models.models(),
            observer: self.observer.as_ref(),
            batched: self.models.batched && self.models.target.spec().supports_batched,
            rows: self.shared.limits.rows,
        };
        batch::rounds(&tick, &mut self.running, self.turn);
        self.running.retain(|session| !session.over);
    }

    /// One chunk of one prompt: the oldest comes first.
    fn prefill(&mut self) {
        let Some(at) = self.running.iter().position(|session| session.wants(Step::Prefill)) else { return };
        let session = &mut self.running[at];
        let start = Instant::now();
        let target = self.models.target.as_ref();
        let decisions = guarded(|| {
            let output = forward_one(target, session.sequence.prefill_segment())?;
            output.logits.iter().try_for_each(Tensor::eval)?;
            // The width policy is told the time of the prompt by the report.
            session.sequence.report_mut().prefill_time += start.elapsed();
            session.sequence.prefilled(output)
        });
        match decisions {
            Ok(decisions) => session.emit(decisions, None, self.observer.as_ref()),
            Err(error) => session.fail(error, self.observer.as_ref()),
        }
        if session.over {
            self.running.remove(at);
        }
    }

    fn tell_load(&mut self) {
        let load = Load { running: self.running.len(), waiting: self.waiting.len(), bytes: self.bytes() };
        if load != self.load {
            self.load = load;
            self.observer.load(load);
        }
    }

    /// Tells everybody who is still there.
    fn stop(mut self) {
        for mut session in self.running.drain(..) {
            session.fail(EngineError::Stopped, self.observer.as_ref());
        }
        self.shared.advance(Phase::Ended);
        let late = std::iter::from_fn(|| match self.inbox.try_recv() {
            Ok(Message::Submit(submission)) => Some(Some(*submission)),
            Ok(Message::Wake) => Some(None),
            Err(_) => None,
        });
        for submission in self.waiting.drain(..).chain(late.flatten()) {
            let how = Ended::Failed(&EngineError::Stopped);
            self.observer.ended(&how, &Report::default(), submission.submitted.elapsed());
            let _ = submission.events.try_send(Event::Failed(EngineError::Stopped));
        }
        self.load = Load { running: 1, ..Load::default() };
        self.tell_load();
    }
}
