//! The closing line: what an answer cost and what speculation gave.

use mlxcel_core::{
    Width,
    speculative::{Finish, Generated, Report},
};
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
    let rounds = counted(report.rounds, "round");
    let speculation = match report.decline {
        Some(decline) => format!("{rounds}, no speculation: {decline}"),
        None => format!(
            "{rounds}, {:.2} tokens per round, {}{}",
            report.tokens_per_round(),
            width(report),
            verdicts(report)
        ),
    };
    let inexact = report.inexact.map(|refusal| format!("; inexact allowed: {refusal}")).unwrap_or_default();
    let seed = report.seed.map(|seed| format!("; seed {seed}")).unwrap_or_default();
    format!(
        "{}, {:.1} tok/s; {} in {:.2} s; {speculation}{inexact}{seed}; {}",
        counted(report.emitted, "token"),
        report.tokens_per_second(),
        counted(report.prompt_tokens, "prompt token"),
        report.prefill_time.as_secs_f64(),
        ending(generated.finish)
    )
}

/// A number of things.
fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// The width that blocks have where the end of the answer or of the context leaves room for it; the widths that came, if they
/// were chosen.
fn width(report: &Report) -> String {
    let used = report.widths.keys();
    if report.adaptive
        && let (Some(least), Some(most)) = (used.clone().next(), used.last())
    {
        let often = report.widths.iter().max_by_key(|(_, rounds)| **rounds).map_or(1, |(width, _)| *width);
        return if least == most {
            format!("width {most}")
        } else {
            format!("widths {least} to {most}, mostly {often}")
        };
    }
    format!("width {}", report.width.unwrap_or(Width::ONE))
}

/// What is known of the exactness of the widths that came, in brackets: once if it is the same for all.
fn verdicts(report: &Report) -> String {
    let mut words = report.verdicts_in_words();
    words.retain(|width, _| report.widths.contains_key(width));
    let Some(first) = words.values().next() else { return String::new() };
    if words.values().all(|other| other == first) {
        return format!(" ({first})");
    }
    let each: Vec<_> = words.iter().map(|(width, words)| format!("{width}: {words}")).collect();
    format!(" ({})", each.join("; "))
}

fn ending(finish: Option<Finish>) -> &'static str {
    match finish {
        None => "stopped by Ctrl-C",
        Some(Finish::Eos | Finish::Stop) => "complete",
        Some(Finish::MaxTokens) => "cut off at --max-tokens",
        Some(Finish::Context) => "cut off: the context is full",
    }
}

/// The report with how the answer ended.
fn json(generated: &Generated) -> Value {
    let mut object = json!({ "finish": generated.finish.map_or("cancelled", Finish::reason) });
    if let (Some(object), Ok(Value::Object(report))) =
        (object.as_object_mut(), serde_json::to_value(&generated.report))
    {
        object.extend(report);
    }
    object
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use mlxcel_core::{exactness::Verdict, sampling::Seed, speculative::Decline};

    use super::*;

    #[test]
    fn the_line_says_what_was_asked_for() {
        let report = Report {
            prompt_tokens: 1,
            emitted: 8,
            rounds: 1,
            accepted: 6,
            width: Width::new(16),
            // The budget leaves 7 rows of the 16.
            widths: [(7, 1)].into(),
            seed: Some(Seed(7)),
            prefill_time: Duration::from_millis(20),
            decode_time: Duration::from_millis(100),
            ..Report::default()
        };
        let mut generated = Generated { tokens: Vec::new(), finish: Some(Finish::MaxTokens), report };
        insta::assert_snapshot!(text(&generated), @"8 tokens, 70.0 tok/s; 1 prompt token in 0.02 s; 1 round, 7.00 tokens per round, width 16; seed 7; cut off at --max-tokens");
        let verdict = |rows, longest| Verdict {
            width: Width::new(rows).unwrap_or(Width::ONE),
            by_construction: false,
            longest: Some(longest),
            difference: None,
        };
        let widths: BTreeMap<_, _> = [(1, 4), (2, 2), (8, 1)].into();
        let verdicts = vec![verdict(2, 600), verdict(4, 600), verdict(8, 600)];
        generated.report = Report { adaptive: true, widths, verdicts, ..generated.report };
        insta::assert_snapshot!(text(&generated), @"8 tokens, 70.0 tok/s; 1 prompt token in 0.02 s; 1 round, 7.00 tokens per round, widths 1 to 8, mostly 1 (exact, probed up to 600 rows); seed 7; cut off at --max-tokens");
        generated.report.verdicts[0] = verdict(2, 1200);
        insta::assert_snapshot!(text(&generated), @"8 tokens, 70.0 tok/s; 1 prompt token in 0.02 s; 1 round, 7.00 tokens per round, widths 1 to 8, mostly 1 (2: exact, probed up to 1200 rows; 8: exact, probed up to 600 rows); seed 7; cut off at --max-tokens");
        generated.report = Report { rounds: 7, decline: Some(Decline::Requested), ..generated.report };
        insta::assert_snapshot!(text(&generated), @"8 tokens, 70.0 tok/s; 1 prompt token in 0.02 s; 7 rounds, no speculation: speculation is switched off; seed 7; cut off at --max-tokens");
    }
}
