//! The report as clients read it. Names are promises: add, never rename.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::{Decline, Phases, Report};
use crate::{family::DraftKind, sampling::Seed};

#[derive(Serialize)]
struct View<'a> {
    kind: Option<&'static str>,
    family: Option<&'static str>,
    prompt_tokens: usize,
    tokens: usize,
    prompt_seconds: f64,
    seconds: f64,
    tokens_per_second: f64,
    rounds: usize,
    tokens_per_round: f64,
    round_seconds: f64,
    phase_seconds: Phases,
    width: usize,
    adaptive: bool,
    widths: &'a BTreeMap<usize, usize>,
    proposed: usize,
    accepted: usize,
    proposed_by_position: &'a [usize],
    accepted_by_position: &'a [usize],
    confidence_used: bool,
    rows_cut: usize,
    decline: Option<Decline>,
    decline_reason: Option<String>,
    verdicts: BTreeMap<usize, String>,
    inexact: Option<String>,
    seed: Option<Seed>,
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        View {
            kind: self.kind.map(DraftKind::name),
            family: self.family,
            prompt_tokens: self.prompt_tokens,
            tokens: self.emitted,
            prompt_seconds: self.prefill_time.as_secs_f64(),
            seconds: self.decode_time.as_secs_f64(),
            tokens_per_second: self.tokens_per_second(),
            rounds: self.rounds,
            tokens_per_round: self.tokens_per_round(),
            round_seconds: self.round_seconds(),
            phase_seconds: self.phases,
            width: self.width.map_or(1, crate::Width::rows),
            adaptive: self.adaptive,
            widths: &self.widths,
            proposed: self.proposed,
            accepted: self.accepted,
            proposed_by_position: &self.proposed_by_position,
            accepted_by_position: &self.accepted_by_position,
            confidence_used: self.confidence_used,
            rows_cut: self.rows_cut,
            decline: self.decline,
            decline_reason: self.decline.map(|decline| decline.to_string()),
            verdicts: self.verdicts_in_words(),
            inexact: self.inexact.map(|refusal| refusal.to_string()),
            seed: self.seed,
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        Width,
        exactness::{Difference, Place, Verdict, What},
        speculative::Phase,
    };

    #[test]
    fn clients_read_these_names() {
        let width = |rows| Width::new(rows).unwrap_or(Width::ONE);
        let what = What::LogitBytes { differing: 3, of: 4096 };
        let difference = Difference { width: width(4), place: Place::WindowEdge, context: 511, what };
        let verdict = |rows, difference| Verdict {
            width: width(rows),
            by_construction: false,
            longest: Some(600),
            difference,
        };
        let mut report = Report {
            kind: Some(DraftKind::Block),
            family: Some("scripted"),
            prompt_tokens: 7,
            emitted: 6,
            width: Width::new(4),
            decline: Some(Decline::DrafterFailed),
            verdicts: vec![verdict(2, None), verdict(4, Some(difference))],
            seed: Some(Seed(7)),
            prefill_time: Duration::from_millis(250),
            decode_time: Duration::from_millis(500),
            ..Report::default()
        };
        report.round(Width::new(4).unwrap_or(Width::ONE), 3);
        report.round(Width::ONE, 0);
        report.phases[Phase::Verify] += Duration::from_millis(375);
        insta::assert_json_snapshot!(report);
    }
}
