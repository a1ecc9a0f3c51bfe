//! Counters and histograms, in Prometheus' text form. Names are those of vLLM and llama.cpp behind our own prefix.

use std::time::Duration;

use mlxcel_core::{
    engine::{Ended, Load, Observer, RoundInfo},
    speculative::Report,
};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry},
};

/// Seconds of the buckets: from the fastest small model to a long prompt on a slow machine.
const SECONDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Tokens of the buckets.
const TOKENS: [f64; 14] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 1e5];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Position {
    position: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Width {
    width: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    finished_reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Declined {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Status {
    status: u16,
}

/// Everything that is counted.
pub(crate) struct Metrics {
    registry: Registry,
    running: Gauge,
    waiting: Gauge,
    bytes: Gauge,
    prompt_tokens: Counter,
    generation_tokens: Counter,
    ended: Family<Reason, Counter>,
    rejected: Counter,
    responses: Family<Status, Counter>,
    drafts: Counter,
    draft_tokens: Counter,
    accepted: Counter,
    accepted_at: Family<Position, Counter>,
    drafted_at: Family<Position, Counter>,
    widths: Family<Width, Counter>,
    declined: Family<Declined, Counter>,
    queue_time: Histogram,
    first_token: Histogram,
    per_token: Histogram,
    whole: Histogram,
    prompt_length: Histogram,
    answer_length: Histogram,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let seconds = || Histogram::new(SECONDS);
        let tokens = || Histogram::new(TOKENS);
        let mut metrics = Self {
            registry: Registry::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            bytes: Gauge::default(),
            prompt_tokens: Counter::default(),
            generation_tokens: Counter::default(),
            ended: Family::default(),
            rejected: Counter::default(),
            responses: Family::default(),
            drafts: Counter::default(),
            draft_tokens: Counter::default(),
            accepted: Counter::default(),
            accepted_at: Family::default(),
            drafted_at: Family::default(),
            widths: Family::default(),
            declined: Family::default(),
            queue_time: seconds(),
            first_token: seconds(),
            per_token: seconds(),
            whole: seconds(),
            prompt_length: tokens(),
            answer_length: tokens(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let r = &mut self.registry;
        put(r, "num_requests_running", "Requests that run", self.running.clone());
        put(r, "num_requests_waiting", "Requests that wait for a place", self.waiting.clone());
        put(r, "state_bytes", "Bytes set aside for sequence states", self.bytes.clone());
        put(r, "prompt_tokens", "Tokens of prompts forwarded", self.prompt_tokens.clone());
        put(r, "generation_tokens", "Tokens emitted", self.generation_tokens.clone());
        put(r, "request_success", "Requests by how they ended", self.ended.clone());
        put(r, "requests_rejected", "Requests refused because all places were taken", self.rejected.clone());
        put(r, "http_responses", "Responses by status", self.responses.clone());
        put(r, "spec_decode_num_drafts", "Rounds with proposals", self.drafts.clone());
        put(r, "spec_decode_num_draft_tokens", "Tokens proposed", self.draft_tokens.clone());
        put(r, "spec_decode_num_accepted_tokens", "Proposals accepted", self.accepted.clone());
        put(
            r,
            "spec_decode_num_accepted_tokens_per_pos",
            "Proposals accepted, by position in the block",
            self.accepted_at.clone(),
        );
        put(
            r,
            "spec_decode_num_draft_tokens_per_pos",
            "Tokens proposed, by position in the block",
            self.drafted_at.clone(),
        );
        put(r, "spec_decode_rounds_by_width", "Rounds by rows of their block", self.widths.clone());
        put(r, "spec_decode_declined", "Requests served without speculation", self.declined.clone());
        put(r, "request_queue_time_seconds", "Time in the queue", self.queue_time.clone());
        put(r, "time_to_first_token_seconds", "Time to the first token", self.first_token.clone());
        put(r, "time_per_output_token_seconds", "Time between tokens", self.per_token.clone());
        put(r, "e2e_request_latency_seconds", "Time of whole requests", self.whole.clone());
        put(r, "request_prompt_tokens", "Tokens of prompts", self.prompt_length.clone());
        put(r, "request_generation_tokens", "Tokens of answers", self.answer_length.clone());
    }

    /// As Prometheus reads it.
    pub(crate) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// A response was sent.
    pub(crate) fn response(&self, status: u16) {
        self.responses.get_or_create(&Status { status }).inc();
        if status == 429 {
            self.rejected.inc();
        }
    }
}

/// Registers a metric under our prefix.
fn put(registry: &mut Registry, name: &str, help: &str, metric: impl Metric) {
    registry.register(format!("mlxcel:{name}"), help, metric);
}

impl Observer for Metrics {
    fn load(&self, load: Load) {
        self.running.set(load.running as i64);
        self.waiting.set(load.waiting as i64);
        self.bytes.set(load.bytes as i64);
    }

    fn admitted(&self, waited: Duration) {
        self.queue_time.observe(waited.as_secs_f64());
    }

    fn first_token(&self, after: Duration) {
        self.first_token.observe(after.as_secs_f64());
        self.generation_tokens.inc();
    }

    fn round(&self, round: RoundInfo, emitted: usize, took: Duration) {
        self.generation_tokens.inc_by(emitted as u64);
        self.per_token.observe(took.as_secs_f64() / emitted.max(1) as f64);
        self.widths.get_or_create(&Width { width: round.width as u32 }).inc();
        if round.width > 1 {
            self.drafts.inc();
            self.draft_tokens.inc_by(round.width as u64 - 1);
            self.accepted.inc_by(round.accepted as u64);
            for position in 0..round.width as u32 - 1 {
                self.drafted_at.get_or_create(&Position { position }).inc();
            }
            for position in 0..round.accepted as u32 {
                self.accepted_at.get_or_create(&Position { position }).inc();
            }
        }
    }

    fn ended(&self, how: &Ended<'_>, report: &Report, after: Duration) {
        let finished_reason = match how {
            Ended::Finished(finish) => finish.reason(),
            Ended::Failed(_) => "error",
            Ended::Cancelled => "abort",
        };
        self.ended.get_or_create(&Reason { finished_reason }).inc();
        self.whole.observe(after.as_secs_f64());
        self.prompt_tokens.inc_by(report.prompt_tokens as u64);
        self.prompt_length.observe(report.prompt_tokens as f64);
        self.answer_length.observe(report.emitted as f64);
        if let Some(decline) = report.decline {
            self.declined.get_or_create(&Declined { reason: decline.code() }).inc();
        }
        log(how, report, after);
    }
}

/// A line a request. Prompts and answers are never part of it.
fn log(how: &Ended<'_>, report: &Report, after: Duration) {
    // Tenths are enough for people.
    let ms = (after.as_secs_f64() * 1e4).round() / 10.0;
    let (prompt, emitted, rounds) = (report.prompt_tokens, report.emitted, report.rounds);
    let (proposed, accepted) = (report.proposed, report.accepted);
    match how {
        Ended::Finished(finish) => {
            let finish = finish.reason();
            tracing::info!(prompt, emitted, rounds, proposed, accepted, finish, ms, "answered");
        }
        Ended::Cancelled => tracing::info!(prompt, emitted, rounds, ms, "cancelled: the client has gone"),
        Ended::Failed(error) => tracing::error!(prompt, emitted, rounds, ms, "failed: {error}"),
    }
}
