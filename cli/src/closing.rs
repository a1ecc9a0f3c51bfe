//! The closing line: what an answer cost and what speculation gave.

use mlxcel_core::speculative::{Finish, Generated, Report};
use serde_json::{Value, json};

use crate::{answer::Answered, args::Stats};

/// The line that ends an answer, without a newline.
pub(crate) fn line(answered: &Answered, stats: Stats) -> String {
    match stats {
        Stats::Text => text(&answered.generated),
        Stats::Json => {
            let mut line = json(&answered.generated);
            if !answered.logprobs.is_empty() {
                line["logprobs"] = answered.logprobs.clone().into();
            }
            line.to_string()
        }
    }
}

fn text(generated: &Generated) -> String {
    let report = &generated.report;
    let speculation = match report.decline {
        Some(decline) => format!("{} rounds, no speculation: {decline}", report.rounds),
        None => format!(
            "{} rounds, {:.2} tokens per round, width {}",
            report.rounds,
            report.tokens_per_round(),
            width(report)
        ),
    };
    let inexact = report.inexact.map(|refusal| format!("; inexact allowed: {refusal}")).unwrap_or_default();
    let seed = report.seed.map(|seed| format!("; seed {seed}")).unwrap_or_default();
    format!(
        "{} tokens, {:.1} tok/s; {} prompt tokens in {:.2} s; {speculation}{inexact}{seed}; {}",
        report.emitted,
        report.tokens_per_second(),
        report.prompt_tokens,
        report.prefill_time.as_secs_f64(),
        ending(generated.finish)
    )
}

/// The widest block that was verified: those near the end of an answer are narrower.
fn width(report: &Report) -> usize {
    report.widths.keys().last().copied().unwrap_or(1)
}

fn ending(finish: Option<Finish>) -> &'static str {
    match finish {
        None => "stopped by Ctrl-C",
        Some(Finish::Eos | Finish::Stop) => "complete",
        Some(Finish::MaxTokens) => "cut off at --max-tokens",
        Some(Finish::Context) => "cut off: the context is full",
    }
}

fn json(generated: &Generated) -> Value {
    let report = &generated.report;
    json!({
        "prompt_tokens": report.prompt_tokens,
        "tokens": report.emitted,
        "finish": generated.finish.map_or("cancelled", Finish::reason),
        "prompt_seconds": report.prefill_time.as_secs_f64(),
        "seconds": report.decode_time.as_secs_f64(),
        "tokens_per_second": report.tokens_per_second(),
        "rounds": report.rounds,
        "tokens_per_round": report.tokens_per_round(),
        "width": width(report),
        "proposed": report.proposed,
        "accepted": report.accepted,
        "proposed_by_position": report.proposed_by_position,
        "accepted_by_position": report.accepted_by_position,
        "inexact": report.inexact.map(|refusal| refusal.to_string()),
        "decline": report.decline.map(|decline| decline.to_string()),
        "seed": report.seed,
    })
}
