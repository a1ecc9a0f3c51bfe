//! A forward that fails leaves nothing behind: after `abandon` the round is tried again and the answer is the same.

use mlxcel_core::{
    Width,
    speculative::{Models, Sequence, Step},
};

use crate::{
    Check, ensure,
    exactness::same_states,
    rounds::{Ask, run},
};

/// Every round's forward fails once after it wrote its rows; the answer and the state are those of a run without.
pub fn failing_forwards(models: Models<'_>, ask: &Ask, width: Width) -> Check {
    let expected = run(models, ask, Some(width))?;
    let mut sequence = Sequence::new(models, ask.request(models.vocabulary, Some(width))?)?;
    let (mut failures, mut fail) = (0, true);
    loop {
        match sequence.step() {
            Step::Done(_) => break,
            Step::Prefill => {
                let output = models.target.forward(&mut [sequence.prefill_segment()])?.remove(0);
                sequence.prefilled(output)?;
            }
            Step::Observe => {
                if let Some(drafter) = models.drafter {
                    drafter.observe(&mut sequence.observe_jobs(usize::MAX)?)?;
                }
                sequence.observed();
            }
            Step::Round => {
                let before = sequence.state().fork();
                let emitted = sequence.emitted().to_vec();
                let proposals = match (models.drafter, sequence.draft_job()?) {
                    (Some(drafter), Some(job)) => drafter.propose(&mut [job])?.remove(0),
                    _ => Vec::new(),
                };
                sequence.drafted(proposals)?;
                let output = models.target.forward(&mut [sequence.segment()])?.remove(0);
                if fail {
                    sequence.abandon()?;
                    same_states(sequence.state(), &before)?;
                    ensure!(sequence.emitted() == emitted, "an abandoned round emitted tokens");
                    failures += 1;
                } else {
                    sequence.decide(output)?;
                }
                fail = !fail;
            }
        }
    }
    let rounds = expected.rounds.len();
    ensure!(failures == rounds, "{failures} rounds were abandoned of {rounds}");
    ensure!(sequence.emitted() == expected.tokens(), "the answer changed after abandoned rounds");
    let found = sequence.state().contents()?;
    ensure!(found == expected.state, "the state changed after abandoned rounds");
    Ok(())
}
