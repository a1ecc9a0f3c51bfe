//! Widths of all sequences of a tick together.

use super::{Evidence, Situation, WidthPolicy};
use crate::Width;

/// The widths with which one forward over the blocks of all sequences gives the most tokens per second. `at` says where
/// each stands. The time of a tick is the target's for all rows together, and the drafter's for each sequence.
///
/// Starts from the same width for all, then changes one sequence at a time as long as that helps: alone, a wider block seldom
/// pays for the step to a costlier product, together they may.
pub fn choose_together(evidence: &Evidence, policies: &[&WidthPolicy], at: &[Situation]) -> Vec<Width> {
    let tables: Vec<Vec<(Width, f64)>> =
        policies.iter().zip(at).map(|(policy, at)| policy.tokens_by_width(evidence, at)).collect();
    let rate = |chosen: &[usize]| {
        let (mut rows, mut tokens, mut seconds) = (0, 0.0, 0.0);
        for (table, &index) in tables.iter().zip(chosen) {
            let (width, expected) = table[index];
            rows += width.rows();
            tokens += expected;
            seconds += evidence.draft_seconds(width.proposals());
        }
        tokens / (evidence.verify_seconds(rows) + seconds)
    };
    let widest = tables.iter().map(Vec::len).max().unwrap_or(0);
    let starts =
        (0..widest).map(|index| tables.iter().map(|table| index.min(table.len() - 1)).collect::<Vec<_>>());
    let Some(mut chosen) = starts.max_by(|a, b| rate(a).total_cmp(&rate(b))) else { return Vec::new() };
    let mut best = rate(&chosen);
    loop {
        let before = best;
        for sequence in 0..chosen.len() {
            for index in 0..tables[sequence].len() {
                let old = std::mem::replace(&mut chosen[sequence], index);
                let found = rate(&chosen);
                if found > best {
                    best = found;
                } else {
                    chosen[sequence] = old;
                }
            }
        }
        if best <= before {
            return chosen.iter().zip(&tables).map(|(&index, table)| table[index].0).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speculative::width::{Outcome, SharedEvidence, WidthSet};

    fn policy(shared: &SharedEvidence, accepted: usize) -> WidthPolicy {
        let eight = Width::new(8).unwrap_or(Width::ONE);
        let mut policy = WidthPolicy::new(shared.clone(), &WidthSet::up_to(eight), eight);
        for _ in 0..40 {
            policy.round(&Outcome {
                width: eight,
                drafted: 7,
                accepted,
                refused: accepted < 7,
                emitted: accepted + 1,
            });
        }
        policy
    }

    #[test]
    fn who_is_accepted_gets_the_rows() {
        let shared = SharedEvidence::default();
        for rows in [1, 1, 1, 2, 4, 8, 16, 8, 4, 2, 1] {
            // Free up to 8 rows, proportional from there on.
            shared.lock().verified(rows, 0.01 * (rows as f64 / 8.0).max(1.0));
            shared.lock().drafted(3, 0.001);
        }
        let (good, bad) = (policy(&shared, 7), policy(&shared, 0));
        let evidence = shared.lock().clone();
        let rows = |policies: &[&WidthPolicy], at: &[Situation]| -> Vec<usize> {
            choose_together(&evidence, policies, at).into_iter().map(Width::rows).collect()
        };
        let at = |room, backlog| Situation { room, remaining: room, emitted: 1, backlog };
        assert_eq!(rows(&[&good, &bad], &[at(99, 0), at(99, 0)]), [8, 1]);
        assert_eq!(rows(&[&bad, &bad], &[at(99, 0), at(99, 0)]), [1, 1]);
        assert_eq!(rows(&[&good], &[at(3, 0)]), [3], "no more than there is room for");
        assert_eq!(rows(&[&good, &good], &[at(99, 0), at(3, 5000)]), [8, 1], "two tokens pay for no prompt");
        assert_eq!(rows(&[], &[]), [0usize; 0]);
    }
}
