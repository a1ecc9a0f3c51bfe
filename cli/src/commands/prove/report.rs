//! What came out, for people and programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    arms::{Compared, Outcome, Proof},
    divergence::Divergence,
    interval::Interval,
};

/// Two tables, one a setting, and a sentence each.
pub(super) fn text(proof: &Proof) -> String {
    let mut text = String::new();
    for outcome in &proof.settings {
        let name_width = outcome.prompts.iter().map(|prompt| prompt.name.len()).max().unwrap_or(0).max(6);
        let _ = writeln!(
            text,
            "{}: speculative against classic decoding, {} repeats in turn",
            outcome.name, proof.repeat
        );
        let _ =
            writeln!(text, "  {:name_width$}  tokens  tok/round  times as fast   from    to   ids", "prompt");
        for prompt in &outcome.prompts {
            row(prompt, name_width, &mut text);
        }
        summary(outcome, &mut text);
    }
    text
}

fn row(prompt: &Compared, name_width: usize, text: &mut String) {
    let ids = match (&prompt.divergence, prompt.report.decline) {
        (Some(divergence), _) => differ(divergence),
        (None, Some(decline)) => format!("equal; no speculation: {decline}"),
        (None, None) => "equal".to_owned(),
    };
    let Some(Interval { median, low, high, .. }) = Interval::of(&prompt.ratios) else { return };
    let (tokens, per_round) = (prompt.tokens, prompt.report.tokens_per_round());
    let _ = writeln!(
        text,
        "  {:name_width$}  {tokens:>6}  {per_round:>9.2}  {median:>13.2}  {low:>5.2} {high:>5.2}   {ids}",
        prompt.name
    );
}

fn differ(divergence: &Divergence) -> String {
    let token =
        |token: Option<mlxcel_core::TokenId>| token.map_or("the end".to_owned(), |token| token.to_string());
    format!(
        "DIFFER at token {}: {} classic, {} speculative, margin {}",
        divergence.at,
        token(divergence.classic),
        token(divergence.speculative),
        divergence.margin
    )
}

fn summary(outcome: &Outcome, text: &mut String) {
    let equal = outcome.prompts.iter().filter(|prompt| prompt.divergence.is_none()).count();
    let _ = write!(text, "  ids equal on {equal} of {} prompts", outcome.prompts.len());
    if let Some(Interval { median, low, high, confidence }) = outcome.mean() {
        let percent = confidence * 100.0;
        let _ = write!(
            text,
            "; {median:.3} times as fast in the geometric mean ({low:.3} to {high:.3}, {percent:.0} %)"
        );
    }
    text.push('\n');
}

/// The same as one object.
pub(super) fn json(proof: &Proof) -> Value {
    let interval = |interval: Option<Interval>| {
        interval.map(|Interval { median, low, high, confidence }| {
            json!({ "median": median, "low": low, "high": high, "confidence": confidence })
        })
    };
    let divergence = |divergence: &Divergence| {
        json!({
            "at": divergence.at,
            "classic": divergence.classic,
            "speculative": divergence.speculative,
            "margin": divergence.margin,
        })
    };
    let prompt = |prompt: &Compared| {
        json!({
            "name": prompt.name,
            "prompt_tokens": prompt.prompt_tokens,
            "tokens": prompt.tokens,
            "equal": prompt.divergence.is_none(),
            "divergence": prompt.divergence.as_ref().map(divergence),
            "ratio": interval(Interval::of(&prompt.ratios)),
            "ratios": prompt.ratios,
            "tokens_per_round": prompt.report.tokens_per_round(),
            "widths": prompt.report.widths,
            "decline": prompt.report.decline.map(|decline| decline.to_string()),
            "inexact": prompt.report.inexact.map(|refusal| refusal.to_string()),
        })
    };
    let setting = |outcome: &Outcome| {
        json!({
            "setting": outcome.name,
            "geometric_mean": interval(outcome.mean()),
            "prompts": outcome.prompts.iter().map(prompt).collect::<Vec<_>>(),
        })
    };
    json!({
        "equal": proof.equal(),
        "repeat": proof.repeat,
        "settings": proof.settings.iter().map(setting).collect::<Vec<_>>(),
    })
}
