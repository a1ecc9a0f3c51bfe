//! The widths of a tick: chosen for all sequences together, from the cost of the total rows.

use std::time::Duration;

use super::session::Session;
use crate::speculative::{
    Step,
    width::{WidthPolicy, choose_together},
};

/// Chooses the widths of the next round for all sequences that leave theirs to a policy. One alone keeps its own choice: its
/// policy may be trying something out.
pub(super) fn choose(running: &mut [Session]) {
    let mut sessions: Vec<_> = running
        .iter_mut()
        .filter(|session| session.wants(Step::Round) || session.wants(Step::Observe))
        .collect();
    if sessions.len() < 2 {
        return;
    }
    sessions.retain(|session| session.sequence.policy().is_some());
    let widths = {
        let policies: Vec<_> = sessions.iter().filter_map(|session| session.sequence.policy()).collect();
        let at: Vec<_> = sessions.iter().map(|session| session.sequence.situation()).collect();
        let Some(evidence) = policies.first().map(|policy| policy.evidence()) else { return };
        choose_together(&evidence.lock(), &policies, &at)
    };
    for (session, width) in sessions.into_iter().zip(widths) {
        session.sequence.set_next_width(width);
    }
}

/// Tells the evidence what a forward over several sequences cost: `widths` are the rows of their blocks, `drafted` the
/// drafter's time for all of them, `verified` that of the target and of deciding.
pub(super) fn learn(sessions: &[&mut Session], widths: &[usize], drafted: Duration, verified: Duration) {
    let policy: Option<&WidthPolicy> = sessions.iter().find_map(|session| session.sequence.policy());
    let Some(policy) = policy else { return };
    let mut evidence = policy.evidence().lock();
    evidence.verified(widths.iter().sum(), verified.as_secs_f64());
    let proposals: Vec<_> = widths.iter().map(|rows| rows - 1).filter(|&proposals| proposals > 0).collect();
    if !proposals.is_empty() {
        // Sequences draft together, so each of them costs its share.
        let mean = proposals.iter().sum::<usize>().div_ceil(proposals.len());
        evidence.drafted(mean, drafted.as_secs_f64() / proposals.len() as f64);
    }
}
