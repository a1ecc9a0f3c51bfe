//! One admitted request.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::{Sender, error::TrySendError};

use super::{Ended, EngineError, Event, Observer, RoundInfo, handle::Place};
use crate::{
    sampling::Decision,
    speculative::{Sequence, Step},
};

/// Events that a session may send before it looks at its reader again: those of a round, and the last one.
const NEXT: usize = 2;

/// A running sequence and its reader.
pub(super) struct Session {
    pub(super) sequence: Sequence,
    events: Sender<Event>,
    /// Bytes set aside.
    pub(super) bytes: usize,
    submitted: Instant,
    /// When tokens were emitted last.
    emitted: Option<Instant>,
    /// Since when its reader has taken nothing.
    stalled: Option<Instant>,
    /// Whether its last event is sent: nothing more is done for it.
    pub(super) over: bool,
    /// Held while the request is in the engine.
    _place: Place,
}

impl Session {
    pub(super) fn new(
        sequence: Sequence,
        events: Sender<Event>,
        bytes: usize,
        submitted: Instant,
        place: Place,
    ) -> Self {
        Self { sequence, events, bytes, submitted, emitted: None, stalled: None, over: false, _place: place }
    }

    /// Whether nobody reads any more.
    pub(super) fn is_cancelled(&self) -> bool {
        self.events.is_closed()
    }

    /// Whether there is room for what the next step sends.
    pub(super) fn may_run(&self) -> bool {
        self.events.capacity() >= NEXT
    }

    /// Notes whether the reader keeps up; true when it has taken nothing for `patience`.
    pub(super) fn is_stalled(&mut self, patience: Duration) -> bool {
        if self.may_run() {
            self.stalled = None;
            return false;
        }
        self.stalled.get_or_insert_with(Instant::now).elapsed() >= patience
    }

    /// Whether it can take part in a round.
    pub(super) fn wants(&self, step: Step) -> bool {
        !self.over && self.sequence.step() == step && self.may_run()
    }

    /// The request was admitted.
    pub(super) fn started(&self, observer: &dyn Observer) {
        let waited = self.submitted.elapsed();
        observer.admitted(waited);
        self.send(Event::Started { waited });
    }

    /// Hands out tokens, and the end of the answer if this is it.
    pub(super) fn emit(
        &mut self,
        decisions: Vec<Decision>,
        round: Option<RoundInfo>,
        observer: &dyn Observer,
    ) {
        if !decisions.is_empty() {
            let now = Instant::now();
            match (round, self.emitted) {
                (Some(round), Some(before)) => {
                    observer.round(round, decisions.len(), now.duration_since(before));
                }
                _ => observer.first_token(now.duration_since(self.submitted)),
            }
            self.emitted = Some(now);
            self.send(Event::Tokens { decisions, round });
        }
        let Step::Done(finish) = self.sequence.step() else { return };
        observer.ended(&Ended::Finished(finish), self.sequence.report(), self.submitted.elapsed());
        self.send(Event::Finished { finish, report: Box::new(self.sequence.report().clone()) });
        self.over = true;
    }

    /// The answer breaks off.
    pub(super) fn fail(&mut self, error: EngineError, observer: &dyn Observer) {
        observer.ended(&Ended::Failed(&error), self.sequence.report(), self.submitted.elapsed());
        self.send(Event::Failed(error));
        self.over = true;
    }

    /// The reader has gone.
    pub(super) fn cancelled(&self, observer: &dyn Observer) {
        observer.ended(&Ended::Cancelled, self.sequence.report(), self.submitted.elapsed());
    }

    fn send(&self, event: Event) {
        match self.events.try_send(event) {
            // A reader that has gone is seen at the next tick.
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            // Only a failure finds no room: the reader is slow, and learns of it by the channel's end.
            Err(TrySendError::Full(event)) => {
                tracing::debug!("no room for the reader's last event: {event:?}");
            }
        }
    }
}
