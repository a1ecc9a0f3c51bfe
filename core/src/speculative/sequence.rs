//! One request on its way.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Decline, Finish, Models, Phase, Report, Request, Speculation, Watch, chooser::Chooser,
    prefill::next_chunk,
};
use crate::{
    Error, Kept, Position, Result, TokenId, Width,
    exactness::{Gate, Refusal},
    family::{
        Draft, DraftKind, Drafter, DrafterContext, LogitRows, Observe, Output, Proposals, Segment,
        TargetSpec, Want,
    },
    nn::Tensor,
    sampling::{Decision, Sampler},
    state::SequenceState,
};

/// What a sequence needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A forward over a chunk of the prompt.
    Prefill,
    /// Taps to be observed by the drafter: [`Sequence::observe_jobs`].
    Observe,
    /// A round.
    Round,
    /// Nothing: the answer is complete.
    Done(Finish),
}

/// A request between admission and its last token. It never forwards.
pub struct Sequence {
    prompt: Vec<TokenId>,
    /// Prompt tokens forwarded.
    prefilled: usize,
    state: SequenceState,
    drafting: Option<Drafting>,
    /// Says which widths may run.
    gate: Gate,
    chooser: Chooser,
    watch: Option<Box<dyn Watch>>,
    max_tokens: usize,
    /// Rows that a sequence may have.
    room: usize,
    vocab: usize,
    /// `[anchor, d1 …]` of the round under way.
    block: Vec<TokenId>,
    /// Proposals the drafter was asked for.
    asked: usize,
    finish: Option<Finish>,
    report: Report,
}

/// The drafter's side of a sequence.
struct Drafting {
    context: DrafterContext,
    taps: Vec<usize>,
    width: Width,
    /// Taps of committed rows that the drafter has not seen, in order.
    unseen: Vec<Tensor>,
}

impl Sequence {
    /// Admits a request.
    ///
    /// # Errors
    /// An empty prompt, one that fills the context, ids outside the vocabulary, a width over the drafter's bound.
    pub fn new(models: Models<'_>, request: Request) -> Result<Self> {
        let Models { target, drafter, vocabulary, gate } = models;
        let spec = target.spec();
        check_prompt(&request.prompt, spec)?;
        let mut report = Report {
            kind: drafter.map(|_| DraftKind::Block),
            family: drafter.map(|drafter| drafter.spec().family),
            prompt_tokens: request.prompt.len(),
            seed: Some(request.sampling.seed()),
            ..Report::default()
        };
        let drafting = match drafting(drafter, gate, &request)? {
            Ok(drafting) => {
                report.width = Some(drafting.width);
                Some(drafting)
            }
            Err(decline) => {
                report.decline = Some(decline);
                None
            }
        };
        let slack = drafting.as_ref().map_or(Width::ONE, |drafting| drafting.width);
        let sampler = Sampler::new(request.sampling, request.choice, Arc::clone(vocabulary));
        Ok(Self {
            state: target.new_state(slack),
            chooser: Chooser::new(sampler, &request.prompt, request.eos, request.min_tokens),
            prompt: request.prompt,
            prefilled: 0,
            drafting,
            gate: gate.clone(),
            watch: request.watch,
            max_tokens: request.max_tokens,
            room: spec.context,
            vocab: spec.vocab,
            block: Vec::new(),
            asked: 0,
            finish: (request.max_tokens == 0).then_some(Finish::MaxTokens),
            report,
        })
    }

    /// What comes next.
    pub fn step(&self) -> Step {
        if let Some(finish) = self.finish {
            return Step::Done(finish);
        }
        if self.prefilled < self.prompt.len() {
            return Step::Prefill;
        }
        match &self.drafting {
            Some(drafting) if !drafting.unseen.is_empty() => Step::Observe,
            _ => Step::Round,
        }
    }

    /// The next chunk of the prompt; its output goes to [`Self::prefilled`].
    pub fn prefill_segment(&mut self) -> Segment<'_> {
        let chunk = next_chunk(self.prefilled, self.prompt.len());
        let last = chunk.end == self.prompt.len();
        let want = Want {
            logits: if last { LogitRows::Last } else { LogitRows::None },
            taps: self.drafting.as_ref().map_or(&[], |drafting| &drafting.taps),
        };
        Segment { tokens: &self.prompt[chunk], state: &mut self.state, want }
    }

    /// Takes the result of a chunk; the last one gives the first token.
    pub fn prefilled(&mut self, output: Output) -> Result<Vec<Decision>> {
        self.prefilled = next_chunk(self.prefilled, self.prompt.len()).end;
        self.state.eval()?;
        self.keep_taps(output.taps, None)?;
        let Some(logits) = output.logits else { return Ok(Vec::new()) };
        let decision = self.chooser.decide(&logits.to_host()?)?;
        self.finish = self.finish_after(decision.token);
        self.report.emitted = 1;
        Ok(vec![decision])
    }

    /// Committed rows that the drafter has not seen; after it took them, call [`Self::observed`].
    pub fn observe_jobs(&mut self) -> Vec<Observe<'_>> {
        let Some(drafting) = &mut self.drafting else { return Vec::new() };
        let start = Position(drafting.context.len());
        // Rows that follow each other are one job: the drafter's products take them together.
        if drafting.unseen.len() > 1
            && let Ok(joined) = Tensor::concat_rows(&drafting.unseen)
        {
            drafting.unseen = vec![joined];
        }
        let context = &mut drafting.context;
        drafting.unseen.first().map(|taps| Observe { context, taps, start }).into_iter().collect()
    }

    /// The drafter took the jobs of [`Self::observe_jobs`]. Rows that could not be joined to those come next.
    pub fn observed(&mut self) {
        if let Some(drafting) = &mut self.drafting
            && !drafting.unseen.is_empty()
        {
            drafting.unseen.remove(0);
        }
    }

    /// Opens a round: picks its width, and gives the drafter's job if it is wider than 1. The job's result goes to
    /// [`Self::drafted`].
    pub fn draft_job(&mut self) -> Result<Option<Draft<'_>>> {
        let anchor = *self.chooser.emitted().last().ok_or(Error::EmptySegment)?;
        self.block.clear();
        self.block.push(anchor);
        let width = self.width();
        self.note_reach();
        self.asked = width.proposals();
        let position = Position(self.prompt.len() + self.chooser.emitted().len() - 1);
        self.state.begin(width)?;
        match &mut self.drafting {
            Some(drafting) if width > Width::ONE => Ok(Some(Draft {
                context: &mut drafting.context,
                anchor,
                position,
                count: width.proposals(),
                pick: &mut self.chooser,
            })),
            _ => Ok(None),
        }
    }

    /// Takes the drafter's proposals. Fewer than asked for are fine.
    pub fn drafted(&mut self, proposals: Proposals) -> Result<()> {
        self.chooser.rewind();
        if proposals.len() > self.asked {
            return Err(Error::Shape {
                what: "proposals of a drafter",
                found: proposals.len(),
                expected: self.asked,
            });
        }
        if let Some(token) = proposals.iter().find(|token| token.index() >= self.vocab) {
            return Err(Error::TokenOutOfRange { token: *token, vocab: self.vocab });
        }
        self.block.extend(proposals);
        // A drafter that proposes less than it was asked for makes another width.
        let made = Width::new(self.block.len()).unwrap_or(Width::ONE);
        let (width, context) = (self.gate.widest(made, self.context()), self.context());
        self.block.truncate(width.rows());
        self.report.inexact = self.report.inexact.or_else(|| self.gate.overridden(width, context));
        Ok(())
    }

    /// The block to be verified; its output goes to [`Self::decide`].
    pub fn segment(&mut self) -> Segment<'_> {
        let taps = self.drafting.as_ref().map_or(&[][..], |drafting| &drafting.taps);
        Segment { tokens: &self.block, state: &mut self.state, want: Want { logits: LogitRows::All, taps } }
    }

    /// Decides the block's rows, clips at the end of the answer, and commits what was kept. Gives the emitted tokens.
    pub fn decide(&mut self, output: Output) -> Result<Vec<Decision>> {
        let start = Instant::now();
        let rows = self.block.len();
        let logits =
            output.logits.ok_or(Error::Shape { what: "rows of logits", found: 0, expected: rows })?;
        let logits = logits.to_host()?;
        let mut decisions: Vec<Decision> = Vec::with_capacity(rows);
        for (row, logits) in logits.chunks_exact(self.vocab).enumerate() {
            let decision = self.chooser.decide(logits)?;
            let token = decision.token;
            decisions.push(decision);
            self.finish = self.finish_after(token);
            if self.finish.is_some() || self.block.get(row + 1) != Some(&token) {
                break;
            }
        }
        if decisions.is_empty() {
            return Err(Error::Shape { what: "rows of logits", found: 0, expected: rows });
        }
        self.spent(Phase::Decide, start.elapsed());
        let start = Instant::now();
        self.commit(Kept(decisions.len()), output.taps)?;
        self.spent(Phase::Commit, start.elapsed());
        Ok(decisions)
    }

    fn commit(&mut self, kept: Kept, taps: Option<Tensor>) -> Result<()> {
        // Row i of the block is token i − 1 of those emitted, so as many rows stay as tokens were emitted; the last
        // of them was accepted only if it was proposed.
        let accepted = (1..self.block.len())
            .take(kept.0)
            .filter(|&i| self.chooser.emitted()[self.report.emitted..].get(i - 1) == Some(&self.block[i]))
            .count();
        self.state.commit(kept)?;
        let width = Width::new(self.block.len()).unwrap_or(Width::ONE);
        self.report.round(width, accepted);
        self.report.emitted += kept.0;
        self.state.eval()?;
        self.keep_taps(taps, Some(kept))
    }

    /// The drafter cannot go on: the rest of the answer is decoded classically.
    pub fn drafter_failed(&mut self, error: &dyn std::fmt::Display) {
        tracing::warn!("the drafter failed, the request goes on without it: {error}");
        self.drafting = None;
        self.report.decline = Some(Decline::DrafterFailed);
    }

    /// Adds time that the driver spent on a phase for this sequence.
    pub fn spent(&mut self, phase: Phase, time: Duration) {
        self.report.phases[phase] += time;
    }

    /// Drops the round under way, after a failed forward: the state is what it was before.
    pub fn abandon(&mut self) -> Result<()> {
        self.chooser.rewind();
        // Tokens that were decided before a later row failed are not emitted.
        self.chooser.take_back_to(self.report.emitted);
        if self.state.is_open() { self.state.commit(Kept(0)) } else { Ok(()) }
    }

    /// Tokens emitted.
    pub fn emitted(&self) -> &[TokenId] {
        self.chooser.emitted()
    }

    /// The state, for checks.
    pub fn state(&self) -> &SequenceState {
        &self.state
    }

    /// The counters.
    pub fn report(&self) -> &Report {
        &self.report
    }

    pub(super) fn report_mut(&mut self) -> &mut Report {
        &mut self.report
    }

    /// Whether blocks may be wider than 1.
    pub fn speculates(&self) -> bool {
        self.drafting.is_some()
    }

    /// Rows before the next block: the committed length, once there is a token.
    pub fn context(&self) -> usize {
        (self.prompt.len() + self.chooser.emitted().len()).saturating_sub(1)
    }

    /// Rows of the next block: no more than tokens may still be emitted, than the context has room for, and a width that
    /// may run.
    fn width(&self) -> Width {
        let Some(drafting) = &self.drafting else { return Width::ONE };
        let budget = self.max_tokens - self.chooser.emitted().len();
        let room = self.room - self.context();
        let most = Width::new(drafting.width.rows().min(budget).min(room)).unwrap_or(Width::ONE);
        self.gate.widest(most, self.context())
    }

    /// Says in the report when no width but 1 may run at this length, as when the context has grown past what was probed.
    fn note_reach(&mut self) {
        let Some(width) = self.drafting.as_ref().map(|drafting| drafting.width) else { return };
        let refused = self.gate.widest(width, self.context()) == Width::ONE;
        let refusal = self.gate.check(width, self.context()).err().filter(|_| refused);
        self.report.decline = refusal.map(Decline::Exactness);
    }

    /// Whether the answer ends with `token`, the newest emitted.
    fn finish_after(&mut self, token: TokenId) -> Option<Finish> {
        let stopped = self.watch.as_mut().is_some_and(|watch| watch.ends_with(token));
        let emitted = self.chooser.emitted().len();
        if self.chooser.is_eos(token) {
            Some(Finish::Eos)
        } else if stopped {
            Some(Finish::Stop)
        } else if emitted >= self.max_tokens {
            Some(Finish::MaxTokens)
        } else if self.prompt.len() + emitted > self.room {
            Some(Finish::Context)
        } else {
            None
        }
    }

    /// Remembers the taps of committed rows for the drafter; a forward that captured none is an error, never zeros.
    fn keep_taps(&mut self, taps: Option<Tensor>, kept: Option<Kept>) -> Result<()> {
        let Some(drafting) = &mut self.drafting else { return Ok(()) };
        let taps = taps.ok_or(Error::MissingTaps { found: 0, expected: drafting.taps.len() })?;
        let taps = match kept {
            Some(kept) => taps.slice_rows(0..kept.0)?,
            None => taps,
        };
        taps.eval()?;
        drafting.unseen.push(taps);
        Ok(())
    }
}

fn check_prompt(prompt: &[TokenId], spec: &TargetSpec) -> Result<()> {
    if prompt.is_empty() {
        return Err(Error::EmptyPrompt);
    }
    if prompt.len() >= spec.context {
        return Err(Error::PromptTooLong { tokens: prompt.len(), context: spec.context });
    }
    match prompt.iter().find(|token| token.index() >= spec.vocab) {
        Some(token) => Err(Error::TokenOutOfRange { token: *token, vocab: spec.vocab }),
        None => Ok(()),
    }
}

/// The drafter's side of a new sequence, or why there is none.
fn drafting(
    drafter: Option<&dyn Drafter>,
    gate: &Gate,
    request: &Request,
) -> Result<Result<Drafting, Decline>> {
    let Speculation::Fixed(width) = request.speculation else { return Ok(Err(Decline::Requested)) };
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
        Err(refusal) => return Ok(Err(Decline::Exactness(refusal))),
    }
    Ok(Ok(Drafting { context: drafter.new_context(), taps: spec.taps.clone(), width, unseen: Vec::new() }))
}
