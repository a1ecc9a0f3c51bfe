//! One round of many sequences: each step of all of them at once, and one by one where that fails.

use std::time::{Duration, Instant};

use super::{EngineError, Observer, RoundInfo, guard::guarded, session::Session, widths};
use crate::{
    Error, Result, Width,
    family::{Draft, Drafter, Output, Proposals, forward, forward_one},
    nn::Tensor,
    speculative::{CHUNK, Models, Phase, Seen, Step},
};

/// What a tick's rounds are made with.
pub(super) struct Tick<'a> {
    pub(super) models: Models<'a>,
    pub(super) observer: &'a dyn Observer,
    /// Whether segments share a forward.
    pub(super) batched: bool,
    /// Rows of a forward at most.
    pub(super) rows: usize,
}

/// One round of every sequence that is in one and whose reader keeps up, from place `turn` on. Those that end are marked.
pub(super) fn rounds(tick: &Tick<'_>, running: &mut [Session], turn: usize) {
    if tick.batched {
        widths::choose(running);
    }
    let observing = observe(tick, running);
    let (later, first) = running.split_at_mut(turn);
    let mut ready: Vec<_> =
        first.iter_mut().chain(later).filter(|session| session.wants(Step::Round)).collect();
    // A width that was exact so far may have to be probed further on.
    for session in ready.iter().filter(|session| session.sequence.speculates()) {
        tick.models.gate.reach(tick.models.target, session.sequence.context());
    }
    if tick.batched {
        let mut rows = 0;
        let fit = ready.iter().take_while(|session| {
            rows += session.sequence.next_width().rows();
            rows <= tick.rows
        });
        let fit = fit.count().max(1);
        ready.truncate(fit);
        together(tick, &mut ready, observing);
    } else {
        for session in ready {
            together(tick, &mut [session], Duration::ZERO);
        }
    }
}

/// A round of these sequences in one forward. `observing` is the time that the drafter took for their last rounds' rows.
fn together(tick: &Tick<'_>, sessions: &mut [&mut Session], observing: Duration) {
    if sessions.is_empty() {
        return;
    }
    let start = Instant::now();
    draft(tick, sessions);
    let drafted = start.elapsed();
    let mut live: Vec<_> =
        sessions.iter_mut().map(|session| &mut **session).filter(|session| !session.over).collect();
    let widths: Vec<_> = live.iter().map(|session| session.sequence.block_rows()).collect();
    let outputs = guarded(|| {
        let mut segments: Vec<_> = live.iter_mut().map(|session| session.sequence.segment()).collect();
        let outputs = forward(tick.models.target, &mut segments)?;
        // Deciding waits for the logits anyway; waiting here tells the phases apart.
        outputs.iter().filter_map(|output| output.logits.as_ref()).try_for_each(Tensor::eval)?;
        Ok(outputs)
    });
    match outputs {
        Ok(outputs) => {
            let verified = start.elapsed().saturating_sub(drafted);
            if let [session] = live.as_mut_slice() {
                session.sequence.spent(Phase::Draft, drafted);
                session.sequence.spent(Phase::Verify, verified);
            }
            for (session, output) in live.iter_mut().zip(outputs) {
                decide(tick, session, output);
            }
            if live.len() > 1 {
                let verified = start.elapsed().saturating_sub(drafted);
                widths::learn(&live, &widths, drafted + observing, verified);
            }
        }
        Err(error) => apart(tick, &mut live, error),
    }
    let took = start.elapsed();
    for session in sessions {
        session.sequence.report_mut().decode_time += took;
    }
}

/// After a failed forward: every block is taken back, and each sequence has its round alone. One that was alone already
/// has failed.
fn apart(tick: &Tick<'_>, sessions: &mut [&mut Session], error: EngineError) {
    if let [session] = sessions {
        session.fail(error, tick.observer);
        return;
    }
    tracing::warn!("a forward over {} sequences failed, each is tried alone: {error}", sessions.len());
    for session in sessions {
        if let Err(error) = guarded(|| session.sequence.abandon()) {
            session.fail(error, tick.observer);
            continue;
        }
        draft(tick, &mut [session]);
        if session.over {
            continue;
        }
        let output = guarded(|| forward_one(tick.models.target, session.sequence.segment()));
        match output {
            Ok(output) => decide(tick, session, output),
            Err(error) => session.fail(error, tick.observer),
        }
    }
}

/// Decides the rows of one sequence's block and hands its tokens out.
fn decide(tick: &Tick<'_>, session: &mut Session, output: Output) {
    let before = (session.sequence.report().accepted, session.sequence.block_rows());
    match guarded(|| session.sequence.decide(output)) {
        Ok(decisions) => {
            let accepted = session.sequence.report().accepted - before.0;
            let round = RoundInfo { width: before.1, accepted };
            session.emit(decisions, Some(round), tick.observer);
        }
        Err(error) => session.fail(error, tick.observer),
    }
}

/// Opens the rounds of these sequences and lets the drafter propose for all of them at once. A drafter that fails costs a
/// request its speculation, not its answer.
fn draft(tick: &Tick<'_>, sessions: &mut [&mut Session]) {
    let mut jobs = Vec::new();
    let mut drafting = Vec::new();
    let mut failed = Vec::new();
    for (at, session) in sessions.iter_mut().enumerate() {
        match session.sequence.draft_job() {
            Ok(Some(job)) => {
                jobs.push(job);
                drafting.push(at);
            }
            Ok(None) => {}
            Err(error) => failed.push((at, error)),
        }
    }
    let proposed = match tick.models.drafter {
        Some(drafter) if !jobs.is_empty() => Some(guarded(|| propose(drafter, &mut jobs))),
        _ => None,
    };
    drop(jobs);
    for (at, error) in failed {
        sessions[at].fail(EngineError::Failed { message: error.to_string() }, tick.observer);
    }
    match proposed {
        None => {}
        Some(Ok(all)) => {
            for (at, proposals) in drafting.into_iter().zip(all) {
                take(sessions[at], Ok(proposals), tick.observer);
            }
        }
        Some(Err(error)) if drafting.len() == 1 => {
            take(sessions[drafting[0]], Err(error), tick.observer);
        }
        Some(Err(_)) => {
            for at in drafting {
                match guarded(|| sessions[at].sequence.abandon()) {
                    Ok(()) => draft(tick, &mut [sessions[at]]),
                    Err(error) => sessions[at].fail(error, tick.observer),
                }
            }
        }
    }
}

fn propose(drafter: &dyn Drafter, jobs: &mut [Draft<'_>]) -> Result<Vec<Proposals>> {
    let all = drafter.propose(jobs)?;
    let (found, expected) = (all.len(), jobs.len());
    if found == expected { Ok(all) } else { Err(Error::Shape { what: "proposals", found, expected }) }
}

/// Puts the proposals into the sequence's block; without usable ones the drafter is left behind.
fn take(session: &mut Session, proposals: Result<Proposals, EngineError>, observer: &dyn Observer) {
    let taken = proposals.and_then(|proposals| guarded(|| session.sequence.drafted(proposals)));
    let Err(error) = taken else { return };
    match session.sequence.drafted(Vec::new()) {
        Ok(()) => session.sequence.drafter_failed(&error),
        Err(error) => session.fail(EngineError::Failed { message: error.to_string() }, observer),
    }
}

/// Shows the drafter committed rows that it has not seen: of all sequences those of their last rounds, and of prompts and
/// parked stretches no more than a chunk in all, the shortest first, so that a long prompt holds up nobody whose own is
/// short. Who is not through goes on with a classic round, if its widths are chosen: its reader does not wait for the
/// drafter. Gives the time for the rows of the last rounds.
fn observe(tick: &Tick<'_>, running: &mut [Session]) -> Duration {
    let Some(drafter) = tick.models.drafter else { return Duration::ZERO };
    let most = drafter.spec().trained_width.rows();
    let (mut usual, mut pieces, mut later, mut left) = (Vec::new(), Vec::new(), Vec::new(), CHUNK);
    let waiting = running.iter_mut().filter(|session| session.wants(Step::Observe));
    let mut waiting: Vec<_> =
        waiting.map(|session| (session.sequence.situation().backlog, session)).collect();
    waiting.sort_by_key(|(rows, _)| *rows);
    for (rows, session) in waiting {
        if rows <= most {
            usual.push((session, rows));
        } else if left > 0 {
            let piece = rows.min(left);
            left -= piece;
            pieces.push((session, piece));
        } else {
            later.push(session);
        }
    }
    show(drafter, &mut pieces);
    let shown = pieces.into_iter().map(|(session, _)| session);
    for session in shown.chain(later).filter(|session| session.wants(Step::Observe)) {
        session.sequence.set_next_width(Width::ONE);
    }
    show(drafter, &mut usual)
}

/// Shows the drafter the next rows of these sequences, as many as stand beside each. Gives the time of it.
fn show(drafter: &dyn Drafter, sessions: &mut [(&mut Session, usize)]) -> Duration {
    if sessions.is_empty() {
        return Duration::ZERO;
    }
    let start = Instant::now();
    let seen = guarded(|| {
        let mut jobs = Vec::with_capacity(sessions.len());
        for (session, most) in sessions.iter_mut() {
            jobs.extend(session.sequence.observe_jobs(*most)?);
        }
        drafter.observe(&mut jobs)
    });
    match seen {
        Ok(()) => sessions.iter_mut().for_each(|(session, _)| session.sequence.observed()),
        Err(error) => {
            for (session, most) in sessions.iter_mut() {
                observe_alone(drafter, session, *most, &error);
            }
        }
    }
    let took = start.elapsed();
    let share = took / sessions.len() as u32;
    for (session, _) in sessions {
        session.sequence.spent(Phase::Observe, share);
        session.sequence.report_mut().decode_time += took;
    }
    took
}

/// After a failure that one of several sequences caused: those that the drafter took whole go on, those that it did not
/// touch are shown again, alone, and one that it took in part goes on without it.
fn observe_alone(drafter: &dyn Drafter, session: &mut Session, most: usize, error: &EngineError) {
    let alone = match session.sequence.drafter_has_seen() {
        Seen::All => Ok(()),
        Seen::Part => Err(error.clone()),
        Seen::None => guarded(|| drafter.observe(&mut session.sequence.observe_jobs(most)?)),
    };
    if let Err(error) = alone {
        session.sequence.drafter_failed(&error);
    }
    session.sequence.observed();
}
