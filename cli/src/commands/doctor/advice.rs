//! What follows from what was found.

use mlxcel_core::{Width, exactness::Gate, family::DrafterSpec};

use super::{check::Checks, cost::Costs, pair::WidthState};

/// Advice, the most pressing first.
pub(super) fn advise(
    checks: &Checks,
    drafter: Option<&DrafterSpec>,
    gate: &Gate,
    widths: &[WidthState],
    costs: Option<&Costs>,
) -> Vec<String> {
    let mut advice = Vec::new();
    if checks.failed() {
        advice.push("put right what is marked as an error above".to_owned());
    }
    if cfg!(debug_assertions) {
        advice.push("this is a debug build: measure with a release build (cargo build --release)".to_owned());
    }
    let Some(spec) = drafter else {
        if !checks.failed() {
            advice.push("decoding is classic: name a drafter with --draft-model to speculate".to_owned());
        }
        return advice;
    };
    advice.extend(exactness(gate, widths));
    if let Some(costs) = costs {
        advice.extend(worth(spec, widths, costs));
    }
    advice
}

/// Which widths are left out, and what can be done about it.
fn exactness(gate: &Gate, widths: &[WidthState]) -> Option<String> {
    let left_out: Vec<_> =
        widths.iter().filter(|state| !state.used()).map(|state| state.width.to_string()).collect();
    if left_out.is_empty() {
        return None;
    }
    if gate.widest(widest(widths), 0) == Width::ONE {
        return Some(
            "no width gives the tokens of classic decoding on this executor, so requests are served classically; \
             --executor cpu gives them by construction, --allow-inexact speculates all the same"
                .to_owned(),
        );
    }
    Some(format!(
        "widths {} are not used: their tokens may differ from classic decoding",
        left_out.join(", ")
    ))
}

fn widest(widths: &[WidthState]) -> Width {
    widths.iter().map(|state| state.width).max().unwrap_or(Width::ONE)
}

/// What must come out of a round for it to gain.
fn worth(spec: &DrafterSpec, widths: &[WidthState], costs: &Costs) -> Vec<String> {
    let used = widths.iter().filter(|state| state.used() && state.width > Width::ONE);
    // A round gives a token in any case, so one that costs less than a classic step gains from that on.
    let steps: Vec<_> =
        used.filter_map(|state| Some((state.width, costs.steps(state.width)?.max(1.0)))).collect();
    let mut advice = Vec::new();
    // The share of a round's rows that must become tokens.
    let share = |(width, steps): &(Width, f64)| *steps / width.rows() as f64;
    let Some(best) = steps.iter().min_by(|a, b| share(a).total_cmp(&share(b))) else { return advice };
    if share(best) >= 1.0 {
        advice.push(format!(
            "speculation cannot gain here: even at width {} a round costs {:.2} classic steps; use --no-draft",
            best.0, best.1
        ));
        return advice;
    }
    let start = steps.iter().find(|(width, _)| *width == spec.default_width);
    if let Some((width, steps)) = start {
        advice.push(format!(
            "width {width}, where this drafter starts, gains when a round gives more than {steps:.2} tokens"
        ));
    }
    if start.is_none_or(|(width, _)| *width != best.0) {
        advice.push(format!(
            "width {} asks for the smallest share of accepted proposals: it gains from {:.2} tokens a round",
            best.0, best.1
        ));
    }
    advice.push("what your prompts give is measured by mlxcel prove".to_owned());
    advice
}
