//! One request on a made-up machine.

use std::time::Duration;

use conformance::Failure;
use mlxcel_core::{
    TokenId,
    family::{Confidence, Draft},
    speculative::{Models, Phase, Report, Sequence, Step, width::simulation::World},
};

/// Seconds of a classic round of the made-up machines: so many that what this machine needs does not show beside them.
const TICK: f64 = 100.0;

/// Rows that the drafter takes in at once.
const PIECE: usize = 512;

/// What happened in a round.
pub(crate) struct Round {
    /// The drafter's chances.
    pub(crate) confidence: Confidence,
    /// Proposals that the target agreed with, and whether it refused the next.
    pub(crate) agreed: usize,
    pub(crate) refused: bool,
    /// Its time in classic rounds.
    pub(crate) time: f64,
}

/// Serves a request; `seen` is told of every round. Times are those of `world`, or none.
pub(crate) fn drive(
    models: Models<'_>,
    mut sequence: Sequence,
    world: Option<&World>,
    seen: &mut dyn FnMut(&Round),
) -> Result<Report, Failure> {
    let mut observing = 0.0;
    loop {
        match sequence.step() {
            Step::Done(_) => return Ok(sequence.report().clone()),
            Step::Prefill => {
                let output = models.target.forward(&mut [sequence.prefill_segment()])?.remove(0);
                sequence.prefilled(output)?;
            }
            Step::Observe => {
                let mut took = 0.0;
                if let Some(drafter) = models.drafter {
                    let mut jobs = sequence.observe_jobs(PIECE)?;
                    let rows: usize = jobs.iter().map(|job| job.taps.rows()).sum();
                    drafter.observe(&mut jobs)?;
                    // What a round leaves to be observed is part of the drafter's time.
                    took = world.filter(|_| rows > 16).map_or(0.0, |world| world.prompt_row.1 * rows as f64);
                }
                sequence.observed();
                sequence.spent(Phase::Observe, Duration::from_secs_f64(TICK * took));
                observing += took;
            }
            Step::Round => {
                let mut round = round(models, &mut sequence, world)?;
                round.time += std::mem::take(&mut observing);
                seen(&round);
            }
        }
    }
}

fn round(models: Models<'_>, sequence: &mut Sequence, world: Option<&World>) -> Result<Round, Failure> {
    let mut heard = Confidence::new();
    let proposals: Vec<TokenId> = match (models.drafter, sequence.draft_job()?) {
        (Some(drafter), Some(job)) => {
            let Draft { context, anchor, position, count, pick, confidence } = job;
            let job = Draft { context, anchor, position, count, pick, confidence: Some(&mut heard) };
            let proposals = drafter.propose(&mut [job])?.remove(0);
            if let Some(asked) = confidence {
                asked.clone_from(&heard);
            }
            proposals
        }
        _ => Vec::new(),
    };
    let drafted = proposals.len();
    sequence.drafted(proposals.clone())?;
    let rows = sequence.block_rows();
    let mut time = 0.0;
    if let Some(world) = world {
        let (draft, verify) = (world.draft_time(drafted), world.verify_time(rows));
        sequence.spent(Phase::Draft, Duration::from_secs_f64(TICK * draft));
        sequence.spent(Phase::Verify, Duration::from_secs_f64(TICK * verify));
        time = draft + verify;
    }
    let output = models.target.forward(&mut [sequence.segment()])?.remove(0);
    let decisions = sequence.decide(output)?;
    let agreed =
        proposals.iter().zip(&decisions).take_while(|(proposal, decision)| **proposal == decision.token);
    let agreed = agreed.count();
    Ok(Round { confidence: heard, agreed, refused: agreed < decisions.len().min(drafted), time })
}
