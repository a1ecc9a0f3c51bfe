//! The report for people.

use std::fmt::Write as _;

use super::Diagnosis;

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
    let context = diagnosis.costs.as_ref().map_or(0, |costs| costs.context);
    let _ = writeln!(text, "\nrounds behind {context} rows of context, medians");
    let _ = writeln!(text, "  width   draft ms  verify ms   classic steps   verdict");
    for state in &diagnosis.widths {
        let rows = state.width.rows();
        let cost = diagnosis
            .costs
            .as_ref()
            .and_then(|costs| Some((costs.of(state.width)?, costs.steps(state.width)?)));
        let (draft, verify, steps) = cost.map_or((f64::NAN, f64::NAN, f64::NAN), |(cost, steps)| {
            (cost.draft.median() * 1e3, cost.verify.median() * 1e3, steps)
        });
        let verdict = if state.used() { state.verdict() } else { format!("not used: {}", state.verdict()) };
        let _ = writeln!(text, "  {rows:>5}   {draft:>8.3}  {verify:>9.3}   {steps:>13.2}   {verdict}");
    }
}
