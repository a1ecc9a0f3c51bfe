//! One request on its way.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Decline, Finish, Models, Phase, Phases, Report, Request, Seen, Watch,
    chooser::Chooser,
    drafting::Drafting,
    prefill::next_chunk,
    width::{Outcome, Situation, WidthPolicy},
};
use crate::{
    Error, Kept, Position, Result, TokenId, Width,
    exactness::Gate,
    family::{Draft, DraftKind, LogitRows, Observe, Output, Proposals, Segment, TargetSpec, Want},
    nn::Tensor,
    sampling::{Decision, Sampler},
    state::SequenceState,
};

/// Rounds of a request whose times are no evidence.
const WARM_UP: usize = 2;

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
    /// The first proposal that is not in the block, if it was cut.
    left_out: Option<TokenId>,
    /// Rows of the next block, if the context and the budget leave room.
    next: Width,
    /// What the driver spent since the last round.
    since: Phases,
    /// Rows of the last block.
    last: Width,
    /// Rows that the drafter observed since the last round.
    observed: usize,
    finish: Option<Finish>,
    report: Report,
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
        let drafting = match Drafting::open(drafter, gate, &request)? {
            Ok(drafting) => {
                report.width = Some(drafting.widest());
                report.adaptive = drafting.policy().is_some();
                report.verdicts = gate.listed(drafting.widest());
                Some(drafting)
            }
            Err(decline) => {
                report.decline = Some(decline);
                None
            }
        };
        let slack = drafting.as_ref().map_or(Width::ONE, Drafting::widest);
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
            left_out: None,
            next: Width::ONE,
            since: Phases::default(),
            last: Width::ONE,
            observed: 0,
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
            Some(drafting) if drafting.must_observe(self.next) => Step::Observe,
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
        if let Some(policy) = self.drafting.as_mut().and_then(Drafting::policy_mut) {
            policy.prefilled(self.prompt.len(), self.report.prefill_time.as_secs_f64());
        }
        self.plan();
        Ok(vec![decision])
    }

    /// The next committed rows that the drafter has not seen, at most `most` and at least one; after it took them, call
    /// [`Self::observed`]. A long prompt is observed in several steps, so that others have their rounds between them.
    pub fn observe_jobs(&mut self, most: usize) -> Result<Vec<Observe<'_>>> {
        let Some(drafting) = &mut self.drafting else { return Ok(Vec::new()) };
        Ok(drafting.observe_job(most)?.into_iter().collect())
    }

    /// The drafter took the jobs of [`Self::observe_jobs`].
    pub fn observed(&mut self) {
        if let Some(drafting) = &mut self.drafting {
            self.observed += drafting.observed();
        }
    }

    /// Opens a round: picks its width, and gives the drafter's job if it is wider than 1. The job's result goes to
    /// [`Self::drafted`].
    pub fn draft_job(&mut self) -> Result<Option<Draft<'_>>> {
        let anchor = *self.chooser.emitted().last().ok_or(Error::EmptySegment)?;
        self.block.clear();
        self.block.push(anchor);
        let width = self.next_width();
        self.note_reach();
        self.asked = width.proposals();
        let position = Position(self.prompt.len() + self.chooser.emitted().len() - 1);
        self.state.begin(width)?;
        self.left_out = None;
        let Some(drafting) = self.drafting.as_mut().filter(|_| width > Width::ONE) else { return Ok(None) };
        let (context, confidence) = drafting.job();
        let (count, pick) = (width.proposals(), &mut self.chooser);
        Ok(Some(Draft { context, anchor, position, count, pick, confidence }))
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
        let context = self.context();
        let whole = self.gate.widest(made, context);
        let gate = &self.gate;
        let may = |width| gate.check(width, context).is_ok();
        let cut = self.drafting.as_mut().and_then(|drafting| drafting.cut(whole, may));
        let width = cut.unwrap_or(whole);
        self.report.confidence_used |= cut.is_some();
        self.report.rows_cut += whole.rows() - width.rows();
        self.left_out = self.block.get(width.rows()).copied();
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
        let outcome = self.commit(Kept(decisions.len()), output.taps)?;
        self.spent(Phase::Commit, start.elapsed());
        self.learn(&outcome);
        self.plan();
        Ok(decisions)
    }

    fn commit(&mut self, kept: Kept, taps: Option<Tensor>) -> Result<Outcome> {
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
        self.keep_taps(taps, Some(kept))?;
        // A row that was decided and whose proposal is not among the accepted ones refused it. The last row tells of the
        // first proposal that was left out.
        let last = self.chooser.emitted().last();
        let looked_at = self.left_out.filter(|_| kept.0 == width.rows() && accepted == width.proposals());
        let agreed = accepted + usize::from(looked_at.is_some_and(|token| last == Some(&token)));
        let refused = agreed < width.proposals() + usize::from(looked_at.is_some()) && agreed < kept.0;
        Ok(Outcome { width, drafted: self.asked, accepted: agreed, refused, emitted: kept.0 })
    }

    /// What the round tells the policy. Its times count only if the driver measured it alone.
    fn learn(&mut self, outcome: &Outcome) {
        let (since, observed) = (std::mem::take(&mut self.since), std::mem::take(&mut self.observed));
        let Some(policy) = self.drafting.as_mut().and_then(Drafting::policy_mut) else { return };
        let seconds = |phases: &[Phase]| phases.iter().map(|&phase| since[phase].as_secs_f64()).sum::<f64>();
        let observing = seconds(&[Phase::Observe]);
        // Rows of the round before belong to the round; those of a prompt or of a parked stretch do not.
        let usual = observed <= policy.widest().rows();
        if !usual {
            policy.observed(observed, observing);
        }
        // The rounds after a prompt, and a single row after wider blocks, find cold caches: they say little of the rest.
        let cold = self.report.rounds <= WARM_UP || (outcome.width == Width::ONE && self.last > Width::ONE);
        self.last = outcome.width;
        if since[Phase::Verify] > Duration::ZERO && !cold {
            let mut evidence = policy.evidence().lock();
            let target = seconds(&[Phase::Verify, Phase::Decide, Phase::Commit]);
            evidence.verified(outcome.width.rows(), target);
            if outcome.drafted > 0 {
                let drafting = seconds(&[Phase::Draft]) + if usual { observing } else { 0.0 };
                evidence.drafted(outcome.drafted, drafting);
            }
        }
        policy.round(outcome);
        if self.report.decline.is_none() && self.report.proposed == 0 && self.report.rows_cut == 0 {
            self.report.decline = Some(Decline::NotWorthwhile);
        }
    }

    /// Chooses the width of the next round, and lets go of what the drafter would need when there will be none.
    fn plan(&mut self) {
        // What was probed on the way belongs to the answer's report.
        if let Some(width) = self.report.width.filter(|_| self.finish.is_some()) {
            self.report.verdicts = self.gate.listed(width);
        }
        let at = self.situation();
        let Some(drafting) = &mut self.drafting else { return };
        self.next = drafting.choose(&at, self.finish.is_some());
        if drafting.is_over(self.next, &at) {
            self.drafting = None;
        }
    }

    /// Where the request stands, for a policy that looks at several.
    pub fn situation(&self) -> Situation {
        let emitted = self.chooser.emitted().len();
        let remaining = self.max_tokens.saturating_sub(emitted);
        let room = self.room - self.context();
        let backlog = self.drafting.as_ref().map_or(0, Drafting::backlog);
        Situation { room: room.min(remaining), remaining, emitted, backlog }
    }

    /// The policy that chooses the widths, if they are chosen.
    pub fn policy(&self) -> Option<&WidthPolicy> {
        self.drafting.as_ref().and_then(Drafting::policy)
    }

    /// Takes the width of the next round from whoever chooses those of several sequences together; without an adaptive
    /// policy nothing changes. Call it between rounds.
    pub fn set_next_width(&mut self, width: Width) {
        if let Some(policy) = self.drafting.as_mut().and_then(Drafting::policy_mut) {
            self.next = policy.widths().at_most(width.rows());
            policy.chosen(self.next);
        }
    }

    /// The drafter cannot go on: the rest of the answer is decoded classically.
    pub fn drafter_failed(&mut self, error: &dyn std::fmt::Display) {
        tracing::warn!("the drafter failed, the request goes on without it: {error}");
        self.drafting = None;
        self.report.decline = Some(Decline::DrafterFailed);
    }

    /// Adds time that the driver spent on a phase for this sequence.
    ///
    /// A driver that forwards this sequence alone adds what it measures of each phase, [`Phase::Verify`] before
    /// [`Self::decide`]: the width policy learns its costs from that. One that forwards several together leaves the
    /// verify phase out and tells the evidence itself.
    pub fn spent(&mut self, phase: Phase, time: Duration) {
        self.report.phases[phase] += time;
        self.since[phase] += time;
    }

    /// Drops the round under way, after a failed forward: the state is what it was before.
    pub fn abandon(&mut self) -> Result<()> {
        self.chooser.rewind();
        // Tokens that were decided before a later row failed are not emitted.
        self.chooser.take_back_to(self.report.emitted);
        if self.state.is_open() { self.state.commit(Kept(0)) } else { Ok(()) }
    }

    /// Rows of the block under way.
    pub fn block_rows(&self) -> usize {
        self.block.len()
    }

    /// How much the drafter has taken in of what [`Self::observe_jobs`] handed it last, after it failed.
    pub fn drafter_has_seen(&self) -> Seen {
        self.drafting.as_ref().map_or(Seen::All, |drafting| drafting.has_seen(&self.state))
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

    pub(crate) fn report_mut(&mut self) -> &mut Report {
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
    pub fn next_width(&self) -> Width {
        if self.drafting.is_none() {
            return Width::ONE;
        }
        let most = Width::new(self.next.rows().min(self.situation().room)).unwrap_or(Width::ONE);
        self.gate.widest(most, self.context())
    }

    /// Says in the report when no width but 1 may run at this length, as when the context has grown past what was probed.
    fn note_reach(&mut self) {
        let Some(width) = self.drafting.as_ref().map(Drafting::widest) else { return };
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

    /// Remembers the taps of committed rows for the drafter, if there is one.
    fn keep_taps(&mut self, taps: Option<Tensor>, kept: Option<Kept>) -> Result<()> {
        self.drafting.as_mut().map_or(Ok(()), |drafting| drafting.keep_taps(taps, kept))
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
