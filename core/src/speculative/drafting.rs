//! The drafter's side of a sequence: what it has seen, what it has yet to see, and how wide its blocks are.

use super::{
    Decline, Request, Speculation,
    unseen::Unseen,
    width::{Situation, WidthPolicy},
};
use crate::{
    Error, Kept, Position, Result, Width,
    exactness::{Gate, Refusal},
    family::{Confidence, Drafter, DrafterContext, Observe},
    nn::Tensor,
    state::SequenceState,
};

/// How much of a job a drafter has taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// All rows.
    All,
    /// No row.
    None,
    /// Some rows, or not in every layer: its context is of no more use.
    Part,
}

/// The drafter's side of a sequence.
pub(super) struct Drafting {
    context: DrafterContext,
    /// Layers of the target that the drafter reads.
    pub(super) taps: Vec<usize>,
    widths: Widths,
    /// Taps of committed rows that the drafter has not seen. A parked request keeps them here.
    unseen: Unseen,
    /// How sure the drafter is of the proposals under way.
    confidence: Confidence,
}

/// How the widths of a request come about.
enum Widths {
    /// The same for all rounds with room for it.
    Fixed(Width),
    /// Chosen before each round.
    Adaptive(WidthPolicy),
}

impl Drafting {
    /// The drafter's side of a new sequence, or why there is none.
    ///
    /// # Errors
    /// A width over the drafter's bound.
    pub(super) fn open(
        drafter: Option<&dyn Drafter>,
        gate: &Gate,
        request: &Request,
    ) -> Result<Result<Self, Decline>> {
        let mut widths = match &request.speculation {
            Speculation::Off => return Ok(Err(Decline::Requested)),
            Speculation::Fixed(width) => Widths::Fixed(*width),
            Speculation::Adaptive(policy) => Widths::Adaptive(policy.clone()),
        };
        let width = widths.widest();
        let Some(drafter) = drafter else { return Ok(Err(Decline::NoDrafter)) };
        if width == Width::ONE {
            return Ok(Err(Decline::WidthOne));
        }
        let spec = drafter.spec();
        if width > spec.trained_width {
            return Err(Error::WidthOverLimit { found: width.rows(), limit: spec.trained_width.rows() });
        }
        match gate.check(width, request.prompt.len()) {
            // A context that was not probed may be before the first round.
            Ok(()) | Err(Refusal::Beyond { .. }) => {}
            Err(refusal) if matches!(widths, Widths::Fixed(_)) => {
                return Ok(Err(Decline::Exactness(refusal)));
            }
            Err(refusal) => {
                if gate.widest(width, request.prompt.len()) == Width::ONE {
                    return Ok(Err(Decline::Exactness(refusal)));
                }
            }
        }
        if let Widths::Adaptive(policy) = &mut widths {
            policy.keep(|width| {
                !matches!(gate.check(width, 0), Err(Refusal::Differs(_) | Refusal::NotProbed { .. }))
            });
            let (room, backlog) = (request.max_tokens, request.prompt.len());
            if policy.declines(&Situation { room, remaining: room, emitted: 0, backlog }) {
                return Ok(Err(Decline::NotWorthwhile));
            }
        }
        let unseen = Unseen::new(spec.reach);
        let (context, taps) = (drafter.new_context(), spec.taps.clone());
        Ok(Ok(Self { context, taps, widths, unseen, confidence: Confidence::new() }))
    }

    /// The widest block that may come.
    pub(super) fn widest(&self) -> Width {
        self.widths.widest()
    }

    /// The policy that chooses the widths, if they are chosen.
    pub(super) fn policy(&self) -> Option<&WidthPolicy> {
        match &self.widths {
            Widths::Adaptive(policy) => Some(policy),
            Widths::Fixed(_) => None,
        }
    }

    /// The same, to be told.
    pub(super) fn policy_mut(&mut self) -> Option<&mut WidthPolicy> {
        match &mut self.widths {
            Widths::Adaptive(policy) => Some(policy),
            Widths::Fixed(_) => None,
        }
    }

    /// The width of the next round; 1 once the answer is complete.
    pub(super) fn choose(&mut self, at: &Situation, complete: bool) -> Width {
        match &mut self.widths {
            Widths::Fixed(width) => *width,
            Widths::Adaptive(_) if complete => Width::ONE,
            Widths::Adaptive(policy) => policy.choose(at),
        }
    }

    /// What the drafter makes the next proposals from, and where it says how sure it is of them, if that is asked for.
    pub(super) fn job(&mut self) -> (&mut DrafterContext, Option<&mut Confidence>) {
        self.confidence.clear();
        let asks = self.policy().is_some_and(WidthPolicy::asks_confidence);
        (&mut self.context, asks.then_some(&mut self.confidence))
    }

    /// How many rows of a block of `whole` rows are checked, by how sure the drafter is of them, of widths that `may` run;
    /// `None` if that is not to decide.
    pub(super) fn cut(&mut self, whole: Width, may: impl Fn(Width) -> bool) -> Option<Width> {
        match &mut self.widths {
            Widths::Adaptive(policy) if whole > Width::ONE => policy.cut(whole, &self.confidence, may),
            _ => None,
        }
    }

    /// Whether a request whose next round has `next` rows will never need the drafter again.
    pub(super) fn is_over(&self, next: Width, at: &Situation) -> bool {
        let Widths::Adaptive(policy) = &self.widths else { return false };
        next == Width::ONE && (self.unseen.is_lost() || policy.is_hopeless(at))
    }

    /// Whether the drafter is to be shown rows before a round of `next` rows. A parked request is not: it observes when it
    /// goes on.
    pub(super) fn must_observe(&self, next: Width) -> bool {
        let parked = self.policy().is_some() && next == Width::ONE;
        !parked && !self.unseen.is_empty()
    }

    /// Committed rows that the drafter has not seen.
    pub(super) fn backlog(&self) -> usize {
        self.unseen.rows()
    }

    /// Remembers the taps of committed rows, `[rows, taps · hidden]`: the first `kept` of them, or all.
    ///
    /// # Errors
    /// A forward that captured none: never zeros in their place.
    pub(super) fn keep_taps(&mut self, taps: Option<Tensor>, kept: Option<Kept>) -> Result<()> {
        let taps = taps.ok_or(Error::MissingTaps { found: 0, expected: self.taps.len() })?;
        let taps = match kept {
            Some(kept) => taps.slice_rows(0..kept.0)?,
            None => taps,
        };
        taps.eval()?;
        self.unseen.push(taps)
    }

    /// The next rows to be observed, `most` at most, if there are some.
    pub(super) fn observe_job(&mut self, most: usize) -> Result<Option<Observe<'_>>> {
        self.context.skip(self.unseen.take_dropped()?)?;
        let start = Position(self.context.len());
        let context = &mut self.context;
        Ok(self.unseen.next(most)?.map(|taps| Observe { context, taps, start }))
    }

    /// The drafter took the rows of [`Self::observe_job`]; gives how many.
    pub(super) fn observed(&mut self) -> usize {
        let rows = self.unseen.handed();
        self.unseen.seen();
        rows
    }

    /// How much the drafter has taken in of what it was handed last, after it failed.
    pub(super) fn has_seen(&self, state: &SequenceState) -> Seen {
        let (waiting, handed) = (self.unseen.rows(), self.unseen.handed());
        let Some(rows) = self.context.rows() else { return Seen::Part };
        match state.len() {
            Ok(committed) if committed == rows + waiting && waiting > 0 => Seen::None,
            Ok(committed) if committed + handed == rows + waiting => Seen::All,
            _ => Seen::Part,
        }
    }
}

impl Widths {
    fn widest(&self) -> Width {
        match self {
            Self::Fixed(width) => *width,
            Self::Adaptive(policy) => policy.widest(),
        }
    }
}
