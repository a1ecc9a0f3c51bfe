//! `timings`: what an answer cost and what speculation gave, in the words of llama.cpp where it has some.

use std::time::Duration;

use mlxcel_core::{engine::RoundInfo, family::DraftKind, sampling::Seed, speculative::Report};
use serde_json::{Map, Value, json};

/// What is known of an answer's cost while it is made.
pub(super) struct Timings {
    prompt_tokens: usize,
    seed: Seed,
    draft_family: Option<&'static str>,
    waited: Duration,
    /// Counters so far, for answers that are watched.
    rounds: usize,
    proposed: usize,
    accepted: usize,
    tokens: usize,
}

impl Timings {
    pub(super) fn new(prompt_tokens: usize, seed: Seed, draft_family: Option<&'static str>) -> Self {
        let (rounds, proposed, accepted, tokens) = (0, 0, 0, 0);
        Self { prompt_tokens, seed, draft_family, waited: Duration::ZERO, rounds, proposed, accepted, tokens }
    }

    /// The request was admitted.
    pub(super) fn started(&mut self, waited: Duration) {
        self.waited = waited;
    }

    /// Tokens came, of a round or of the prompt's forward.
    pub(super) fn tokens(&mut self, tokens: usize, round: Option<RoundInfo>) {
        self.tokens += tokens;
        if let Some(round) = round {
            self.rounds += 1;
            self.proposed += round.width - 1;
            self.accepted += round.accepted;
        }
    }

    /// What is known before the end, and the rounds since the last time.
    pub(super) fn so_far(&self, rounds: &[RoundInfo]) -> Value {
        let rounds: Vec<_> =
            rounds.iter().map(|round| json!({"width": round.width, "accepted": round.accepted})).collect();
        json!({
            "prompt_n": self.prompt_tokens,
            "predicted_n": self.tokens,
            "draft_rounds": self.rounds,
            "draft_n": self.proposed,
            "draft_n_accepted": self.accepted,
            "rounds": rounds,
        })
    }

    /// All of a complete answer.
    pub(super) fn complete(&self, report: &Report, rounds: &[RoundInfo]) -> Value {
        let mut all = Map::new();
        let mut put = |name: &str, value: Value| all.insert(name.to_owned(), value);
        put("queue_ms", millis(self.waited));
        put("prompt_n", report.prompt_tokens.into());
        put("prompt_ms", millis(report.prefill_time));
        put("prompt_per_token_ms", per(report.prefill_time, report.prompt_tokens));
        put("prompt_per_second", rate(report.prompt_tokens, report.prefill_time));
        // The first token comes with the prompt's forward.
        let decoded = report.emitted.saturating_sub(1);
        put("predicted_n", report.emitted.into());
        put("predicted_ms", millis(report.decode_time));
        put("predicted_per_token_ms", per(report.decode_time, decoded));
        put("predicted_per_second", rate(decoded, report.decode_time));
        let family = self.draft_family.filter(|_| report.decline.is_none());
        put("draft_kind", family.map(|_| DraftKind::Block.name()).into());
        put("draft_family", family.into());
        put("draft_rounds", report.rounds.into());
        put("draft_n", report.proposed.into());
        put("draft_n_accepted", report.accepted.into());
        put("draft_n_per_position", report.proposed_by_position.clone().into());
        put("draft_n_accepted_per_position", report.accepted_by_position.clone().into());
        let widths: Map<_, _> =
            report.widths.iter().map(|(width, count)| (width.to_string(), (*count).into())).collect();
        put("draft_widths", widths.into());
        put("draft_confidence_used", report.confidence_used.into());
        put("draft_rows_cut", report.rows_cut.into());
        put("draft_decline", report.decline.map(|decline| decline.to_string()).into());
        put("draft_inexact", report.inexact.map(|refusal| refusal.to_string()).into());
        let verdicts: Map<_, _> = report
            .verdicts_in_words()
            .into_iter()
            .map(|(width, words)| (width.to_string(), words.into()))
            .collect();
        put("draft_verdicts", verdicts.into());
        put("seed", self.seed.0.into());
        if !rounds.is_empty() {
            put("rounds", self.so_far(rounds)["rounds"].take());
        }
        all.into()
    }
}

/// `usage` with the counters of a complete answer.
pub(super) fn usage(report: &Report) -> Value {
    json!({
        "prompt_tokens": report.prompt_tokens,
        "completion_tokens": report.emitted,
        "total_tokens": report.prompt_tokens + report.emitted,
        "prompt_tokens_details": {"cached_tokens": 0},
    })
}

fn millis(time: Duration) -> Value {
    round(time.as_secs_f64() * 1e3)
}

fn per(time: Duration, tokens: usize) -> Value {
    if tokens == 0 { Value::Null } else { round(time.as_secs_f64() * 1e3 / tokens as f64) }
}

fn rate(tokens: usize, time: Duration) -> Value {
    if time.is_zero() { Value::Null } else { round(tokens as f64 / time.as_secs_f64()) }
}

/// Microseconds are enough.
fn round(value: f64) -> Value {
    ((value * 1e3).round() / 1e3).into()
}
