//! Drives one sequence alone.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

use super::{Finish, Phase, Report, Request, Sequence, Step, prefill::CHUNK};
use crate::{
    Error, Result, TokenId,
    exactness::Gate,
    family::{Drafter, Target, forward_one},
    nn::Tensor,
    sampling::{Decision, Vocabulary},
};

/// The models that serve a request.
#[derive(Clone, Copy)]
pub struct Models<'a> {
    /// The target.
    pub target: &'a dyn Target,
    /// Its drafter, if there is one.
    pub drafter: Option<&'a dyn Drafter>,
    /// The ids that may be emitted.
    pub vocabulary: &'a Arc<Vocabulary>,
    /// The widths that may run.
    pub gate: &'a Gate,
}

/// What happens on the way.
#[derive(Debug)]
pub enum Event<'a> {
    /// A chunk of the prompt was forwarded.
    Prefilled,
    /// Tokens were decided and committed: the first one, or those of a round.
    Tokens {
        /// The tokens, in order.
        decisions: &'a [Decision],
        /// How many of them, from the first on, the drafter had proposed.
        accepted: usize,
    },
}

/// The outcome of [`generate`].
#[derive(Clone, Debug)]
pub struct Generated {
    /// All tokens, an end token included.
    pub tokens: Vec<TokenId>,
    /// Why it ended; `None` if the caller broke off.
    pub finish: Option<Finish>,
    /// The counters.
    pub report: Report,
}

/// Serves one request from its prompt to its last token. `on_event` may break off between rounds.
pub fn generate(
    models: Models<'_>,
    request: Request,
    on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
) -> Result<Generated> {
    let mut sequence = Sequence::new(models, request)?;
    loop {
        let step = sequence.step();
        if step == Step::Round && sequence.speculates() {
            models.gate.reach(models.target, sequence.context());
        }
        let start = Instant::now();
        let flow = match step {
            Step::Done(finish) => return Ok(done(&sequence, Some(finish))),
            Step::Prefill => {
                let output = forward_one(models.target, sequence.prefill_segment())?;
                // The policy is told the time of the prompt by the report.
                output.logits.iter().try_for_each(Tensor::eval)?;
                let forwarded = start.elapsed();
                sequence.report_mut().prefill_time += forwarded;
                let decisions = sequence.prefilled(output)?;
                sequence.report_mut().prefill_time += start.elapsed().saturating_sub(forwarded);
                match decisions.as_slice() {
                    [] => on_event(Event::Prefilled),
                    decisions => on_event(Event::Tokens { decisions, accepted: 0 }),
                }
            }
            Step::Observe => {
                observe(models, &mut sequence);
                sequence.spent(Phase::Observe, start.elapsed());
                sequence.report_mut().decode_time += start.elapsed();
                ControlFlow::Continue(())
            }
            Step::Round => {
                let before = sequence.report().accepted;
                let decisions = round(models, &mut sequence)?;
                sequence.report_mut().decode_time += start.elapsed();
                let accepted = sequence.report().accepted - before;
                on_event(Event::Tokens { decisions: &decisions, accepted })
            }
        };
        if flow.is_break() {
            return Ok(done(&sequence, None));
        }
    }
}

/// A call into a drafter: a panic in it is an error like any other. What the drafter wrote to must not be used again.
pub fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(Error::Panicked { what: text.unwrap_or("no message").to_owned() })
    })
}

/// A drafter that fails costs the request its speculation, not its answer.
fn observe(models: Models<'_>, sequence: &mut Sequence) {
    if let Some(drafter) = models.drafter
        && let Err(error) = guarded(|| drafter.observe(&mut sequence.observe_jobs(CHUNK)?))
    {
        sequence.drafter_failed(&error);
    }
    sequence.observed();
}

fn round(models: Models<'_>, sequence: &mut Sequence) -> Result<Vec<Decision>> {
    let start = Instant::now();
    let proposals = match (models.drafter, sequence.draft_job()?) {
        (Some(drafter), Some(job)) => {
            guarded(|| drafter.propose(&mut [job])).map(|mut all| all.pop().unwrap_or_default())
        }
        _ => Ok(Vec::new()),
    };
    if let Err(error) = proposals.and_then(|proposals| sequence.drafted(proposals)) {
        sequence.drafted(Vec::new())?;
        sequence.drafter_failed(&error);
    }
    sequence.spent(Phase::Draft, start.elapsed());
    let start = Instant::now();
    let output = forward_one(models.target, sequence.segment())?;
    // Deciding waits for the logits anyway; waiting here tells the phases apart.
    output.logits.iter().try_for_each(Tensor::eval)?;
    sequence.spent(Phase::Verify, start.elapsed());
    sequence.decide(output)
}

fn done(sequence: &Sequence, finish: Option<Finish>) -> Generated {
    Generated { tokens: sequence.emitted().to_vec(), finish, report: sequence.report().clone() }
}
