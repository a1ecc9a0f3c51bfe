//! An answer as server-sent events.
//!
//! Everything that can be refused was refused before the first byte. The role comes at once, then a chunk a round, the
//! reason, the usage if it was asked for, `[DONE]`. An error on the way is an event of its own, and the stream then ends
//! without `[DONE]`.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::stream::unfold;
use mlxcel_core::engine::{Event, Events, RoundInfo};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until};

use super::{Making, timings::usage, transcript::Delta};
use crate::{error::ApiError, net::Peer, request::Common};

/// Between the two comments that find out whether a peer that sends no more still reads.
const PROBE: Duration = Duration::from_millis(50);
/// Events that share a chunk at most, when the reader is slower than the engine.
const MERGED: usize = 64;

/// The response; its body ends the request when it is dropped.
pub(super) fn response(
    events: Events,
    peer: Option<Peer>,
    making: Making,
    common: &Common,
    keep_alive: Duration,
) -> Response {
    let mut frames = VecDeque::new();
    frames.extend(making.envelope.opening().map(|chunk| frame(&chunk.into())));
    let stream = Stream {
        events,
        peer,
        making,
        frames,
        logprobs: common.logprobs.is_some(),
        include_usage: common.include_usage,
        watched: common.timings_per_token,
        letters: 0,
        quiet_until: Instant::now() + keep_alive,
        keep_alive,
        probes: 0,
        over: false,
    };
    let body = unfold(stream, |mut stream| async {
        let bytes = stream.next().await?;
        Some((Ok::<_, Infallible>(bytes), stream))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Stream {
    events: Events,
    peer: Option<Peer>,
    making: Making,
    /// Frames that are ready.
    frames: VecDeque<Bytes>,
    logprobs: bool,
    include_usage: bool,
    /// Whether chunks carry timings.
    watched: bool,
    /// Characters of content so far.
    letters: usize,
    /// A comment comes after this long a silence: proxies and clients know that the answer is on its way.
    keep_alive: Duration,
    /// When the next comment is due.
    quiet_until: Instant,
    /// Comments still to be sent because the peer sends no more.
    probes: usize,
    over: bool,
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                self.quiet_until = Instant::now() + self.keep_alive;
                return Some(frame);
            }
            if self.over {
                return None;
            }
            let ended = async {
                match &self.peer {
                    Some(peer) => peer.sends_no_more().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                event = self.events.recv() => self.take(event),
                () = ended => {
                    // It may only have closed its half: a write tells, the second one for sure.
                    self.peer = None;
                    self.probes = 2;
                    self.quiet_until = Instant::now();
                }
                () = sleep_until(self.quiet_until) => {
                    let more = self.probes > 1;
                    self.probes = self.probes.saturating_sub(1);
                    self.quiet_until = Instant::now() + if more { PROBE } else { self.keep_alive };
                    return Some(Bytes::from_static(b":\n\n"));
                }
            }
        }
    }

    fn take(&mut self, event: Option<Event>) {
        match event {
            Some(Event::Started { waited }) => self.making.timings.started(waited),
            Some(Event::Tokens { decisions, round }) => {
                let mut rounds: Vec<RoundInfo> = round.into_iter().collect();
                self.making.timings.tokens(decisions.len(), round);
                let mut delta = self.making.transcript.take(decisions, self.letters);
                self.letters += delta.content.chars().count();
                let mut last = None;
                for _ in 1..MERGED {
                    match self.events.try_recv() {
                        Ok(Event::Tokens { decisions, round }) => {
                            rounds.extend(round);
                            self.making.timings.tokens(decisions.len(), round);
                            let later = self.making.transcript.take(decisions, self.letters);
                            self.letters += later.content.chars().count();
                            delta.append(later);
                        }
                        Ok(other) => {
                            last = Some(other);
                            break;
                        }
                        Err(_) => break,
                    }
                }
                self.push_delta(&delta, &rounds);
                if last.is_some() {
                    self.take(last);
                }
            }
            Some(Event::Finished { finish, report }) => {
                let rest = self.making.transcript.finish();
                if !rest.is_empty() {
                    self.push_delta(&rest, &[]);
                }
                let timings = self.making.timings.complete(&report, &[]);
                let mut chunk = self.making.envelope.delta(
                    &self.making.transcript.text.tokenizer,
                    &Delta::default(),
                    Some(finish.reason()),
                    false,
                );
                chunk.insert("timings".to_owned(), timings);
                self.push(chunk);
                if self.include_usage {
                    let chunk = self.making.envelope.usage(usage(&report));
                    self.push(chunk);
                }
                self.frames.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
                self.over = true;
            }
            Some(Event::Failed(error)) => self.fail(&error.into()),
            None => self.fail(&ApiError::internal("the answer broke off")),
        }
    }

    /// A chunk with text. Without any there is none, unless somebody watches the rounds.
    fn push_delta(&mut self, delta: &Delta, rounds: &[RoundInfo]) {
        let watched = self.watched && !rounds.is_empty();
        if delta.is_empty() && !watched {
            return;
        }
        let tokenizer = &self.making.transcript.text.tokenizer;
        let mut chunk = self.making.envelope.delta(tokenizer, delta, None, self.logprobs);
        if watched {
            chunk.insert("timings".to_owned(), self.making.timings.so_far(rounds));
        }
        self.push(chunk);
    }

    fn push(&mut self, chunk: Map<String, Value>) {
        self.frames.push_back(frame(&chunk.into()));
    }

    fn fail(&mut self, error: &ApiError) {
        self.frames.push_back(frame(&error.json()));
        self.over = true;
    }
}

fn frame(value: &Value) -> Bytes {
    format!("data: {value}\n\n").into()
}
