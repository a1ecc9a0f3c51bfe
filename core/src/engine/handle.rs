//! How the rest of the program talks to the engine.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::Instant,
};

use tokio::sync::{mpsc, oneshot};

use super::{
    Event, Limits, Observer,
    worker::{EngineModels, Worker},
};
use crate::{
    Error,
    exactness::Gate,
    family::{DrafterSpec, TargetSpec},
    sampling::Vocabulary,
    speculative::{Request, width::SharedEvidence},
};

/// The events of one request. Dropping it cancels the request within one round.
pub type Events = mpsc::Receiver<Event>;

/// Started, Tokens and the last one: what an answer of one round sends.
const ENDS: usize = 3;

/// What an engine is up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// The models are being loaded.
    Loading,
    /// Requests are served.
    Ready,
    /// What is there is finished, and nothing new is taken.
    Draining,
    /// The thread has ended.
    Ended,
}

/// What is known once the models are loaded.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The target.
    pub target: TargetSpec,
    /// Its drafter.
    pub drafter: Option<DrafterSpec>,
    /// The ids that may be emitted.
    pub vocabulary: Arc<Vocabulary>,
    /// Which widths may run.
    pub gate: Gate,
    /// What is known of the pair's costs and acceptance.
    pub evidence: SharedEvidence,
    /// Rows that a sequence may have.
    pub context: usize,
    /// The engine's bounds.
    pub limits: Limits,
    /// Bytes that a sequence takes.
    pub(super) room: Room,
}

/// Bytes that a sequence takes, by estimate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Before its first row.
    pub(super) start: usize,
    /// For a row.
    pub(super) row: usize,
    /// With a full context.
    pub(super) most: usize,
}

impl Room {
    fn bytes(self, rows: usize) -> usize {
        self.start.saturating_add(self.row.saturating_mul(rows)).min(self.most)
    }
}

/// Why a request is not taken.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The models are not loaded yet.
    #[error("the model is still loading")]
    Loading,
    /// All places are taken.
    #[error("{parallel} requests run and {queue} wait: no place is left")]
    Full {
        /// Sequences that run at once.
        parallel: usize,
        /// Requests that may wait.
        queue: usize,
    },
    /// Nothing new is taken.
    #[error("the server is shutting down")]
    Stopping,
    /// The request alone needs more memory than there is for all.
    #[error("{rows} rows of context need {needed} bytes, and {limit} are set aside for all sequences")]
    Memory {
        /// Rows of prompt and answer.
        rows: usize,
        /// Bytes they need, by estimate.
        needed: usize,
        /// Bytes there are.
        limit: usize,
    },
    /// The request itself cannot be served.
    #[error(transparent)]
    Request(#[from] Error),
}

pub(super) enum Message {
    Submit(Box<Submission>),
    /// Look at the phase again.
    Wake,
}

/// A request on its way into the engine.
pub(super) struct Submission {
    pub(super) request: Request,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) bytes: usize,
    pub(super) submitted: Instant,
    pub(super) place: Place,
}

/// What the handles and the thread share.
pub(super) struct Shared {
    pub(super) limits: Limits,
    phase: AtomicU8,
    /// Drop everything at once.
    abort: AtomicU8,
    places: AtomicUsize,
    pub(super) ready: OnceLock<Ready>,
}

impl Shared {
    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Loading,
            1 => Phase::Ready,
            2 => Phase::Draining,
            _ => Phase::Ended,
        }
    }

    /// Phases only go forward.
    pub(super) fn advance(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Acquire) != 0
    }
}

/// A place in the engine: running or waiting. Dropping it gives it back.
pub(super) struct Place(Arc<Shared>);

impl Place {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let Limits { parallel, queue, .. } = shared.limits;
        let all = parallel.saturating_add(queue);
        let taken = shared
            .places
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| (taken < all).then_some(taken + 1));
        taken.is_ok().then(|| Self(Arc::clone(shared)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.places.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A handle on the engine; clones are handles on the same one. When the last is dropped, the engine finishes what it has
/// and ends.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    messages: Sender<Message>,
}

/// An engine whose models are being loaded.
pub struct Starting<E> {
    /// The handle.
    pub engine: Engine,
    /// Tells when the models are loaded, or why they are not.
    pub loaded: oneshot::Receiver<Result<(), E>>,
    /// The engine's thread.
    pub thread: JoinHandle<()>,
}

impl Engine {
    /// Starts the engine's thread, which runs `load` first: models are made on the thread that owns them.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start<E: Send + 'static>(
        limits: Limits,
        observer: Arc<dyn Observer>,
        load: impl FnOnce() -> Result<EngineModels, E> + Send + 'static,
    ) -> std::io::Result<Starting<E>> {
        let shared = Arc::new(Shared {
            limits,
            phase: AtomicU8::new(Phase::Loading as u8),
            abort: AtomicU8::new(0),
            places: AtomicUsize::new(0),
            ready: OnceLock::new(),
        });
        let (messages, inbox) = channel();
        let (report, loaded) = oneshot::channel();
        let engine = Self { shared: Arc::clone(&shared), messages };
        let body = move || {
            let ended = EndOfThread(Arc::clone(&shared));
            match load() {
                Ok(models) => {
                    let worker = start_worker(models, &shared, inbox, observer);
                    let _ = report.send(Ok(()));
                    worker.run();
                }
                Err(error) => {
                    let _ = report.send(Err(error));
                }
            }
            drop(ended);
        };
        let thread = std::thread::Builder::new().name("engine".to_owned()).spawn(body)?;
        Ok(Starting { engine, loaded, thread })
    }

    /// What the engine is up to.
    pub fn phase(&self) -> Phase {
        self.shared.phase()
    }

    /// What is known of the models, once they are loaded.
    pub fn ready(&self) -> Option<&Ready> {
        self.shared.ready.get()
    }

    /// Requests in the engine, running and waiting.
    pub fn requests(&self) -> usize {
        self.shared.places.load(Ordering::Acquire)
    }

    /// Hands in a request. An answer longer than the context has room for is cut to that room.
    ///
    /// # Errors
    /// The prompt fills the context or more, or there is no place.
    pub fn submit(&self, mut request: Request) -> Result<Events, SubmitError> {
        match self.phase() {
            Phase::Loading => return Err(SubmitError::Loading),
            Phase::Ready => {}
            Phase::Draining | Phase::Ended => return Err(SubmitError::Stopping),
        }
        let ready = self.ready().ok_or(SubmitError::Loading)?;
        let (tokens, context) = (request.prompt.len(), ready.context);
        if tokens >= context {
            return Err(Error::PromptTooLong { tokens, context }.into());
        }
        request.max_tokens = request.max_tokens.min(context - tokens);
        request.min_tokens = request.min_tokens.min(request.max_tokens);
        let (rows, limit) = (tokens + request.max_tokens, self.shared.limits.memory);
        let needed = ready.room.bytes(rows);
        if needed > limit {
            return Err(SubmitError::Memory { rows, needed, limit });
        }
        let Some(place) = Place::take(&self.shared) else {
            let Limits { parallel, queue, .. } = self.shared.limits;
            return Err(SubmitError::Full { parallel, queue });
        };
        let (events, receiver) = mpsc::channel(self.shared.limits.buffer.max(1) + ENDS);
        let submission = Submission { request, events, bytes: needed, submitted: Instant::now(), place };
        self.messages.send(Message::Submit(Box::new(submission))).map_err(|_| SubmitError::Stopping)?;
        Ok(receiver)
    }

    /// Takes nothing new; the thread ends when what is there is finished.
    pub fn drain(&self) {
        self.shared.advance(Phase::Draining);
        let _ = self.messages.send(Message::Wake);
    }

    /// Ends every request within one tick, and the thread.
    pub fn abort(&self) {
        self.shared.abort.store(1, Ordering::Release);
        self.drain();
    }
}

fn start_worker(
    models: EngineModels,
    shared: &Arc<Shared>,
    inbox: Receiver<Message>,
    observer: Arc<dyn Observer>,
) -> Worker {
    let worker = Worker::new(models, Arc::clone(shared), inbox, observer);
    let _ = shared.ready.set(worker.ready());
    shared.advance(Phase::Ready);
    worker
}

/// Notes that the thread has ended, however it did.
struct EndOfThread(Arc<Shared>);

impl Drop for EndOfThread {
    fn drop(&mut self) {
        self.0.advance(Phase::Ended);
    }
}
