//! The report for people.

use std::fmt::Write as _;

use super::Diagnosis;
use crate::commands::bench::Samples;

/// The report as text.
pub(super) fn report(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for check in &diagnosis.checks.0 {
        let error = if check.fine { "" } else { "error: " };
        let _ = writeln!(text, "{:11} {error}{}", check.name, check.what);
        if let Some(hint) = &check.hint {
            let _ = writeln!(text, "{:11} hint: {hint}", "");
        }
    }
    if !diagnosis.widths.is_empty() {
        widths(diagnosis, &mut text);
    }
    text.push('\n');
    for advice in &diagnosis.advice {
        let _ = writeln!(text, "advice      {advice}");
    }
    text
}

fn widths(diagnosis: &Diagnosis, text: &mut String) {
    let what = match &diagnosis.costs {
        Some(costs) => format!("rounds behind {} rows of context, medians", costs.context),
        None => "rounds, not measured".to_owned(),
    };
    let _ = writeln!(text, "\n{what}");
    let _ = writeln!(text, "  width   draft ms  verify ms   classic steps   verdict");
    for state in &diagnosis.widths {
        let rows = state.width.rows();
        let cost = diagnosis
            .costs
            .as_ref()
            .and_then(|costs| Some((costs.of(state.width)?, costs.steps(state.width)?)));
        let none = || ["-"; 3].map(str::to_owned);
        let [draft, verify, steps] = cost.map_or_else(none, |(cost, steps)| {
            let millis = |samples: &Samples| format!("{:.3}", samples.median() * 1e3);
            [millis(&cost.draft), millis(&cost.verify), format!("{steps:.2}")]
        });
        let verdict = if state.used() { state.verdict() } else { format!("not used: {}", state.verdict()) };
        let _ = writeln!(text, "  {rows:>5}   {draft:>8}  {verify:>9}   {steps:>13}   {verdict}");
    }
}
