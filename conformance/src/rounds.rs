//! Drives one request step by step, as `speculative::generate` does, and checks what must hold between the steps.

use std::{collections::BTreeMap, sync::Arc};

use mlxcel_core::{
    TokenId, Width,
    family::Output,
    sampling::{Decision, SamplingSettings, Vocabulary},
    speculative::{
        AnswerSettings, Finish, Models, Report, Request, Seen, Sequence, Speculation, Step, Watch,
        width::{SharedEvidence, WidthPolicy},
    },
    text::{SpecialTokens, StopMatcher, TextModel},
};

use crate::{Check, Failure, ensure};

/// Rows that the drafter is shown at once: few, so that most prompts come in several pieces.
const PIECE: usize = 5;

/// A request that can be asked more than once.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The prompt.
    pub prompt: Vec<TokenId>,
    /// Settings; a seed must be among them unless the temperature is 0.
    pub sampling: SamplingSettings,
    /// Index among the choices of one request.
    pub choice: u64,
    /// Tokens to emit at most.
    pub max_tokens: usize,
    /// Tokens before an end token may come.
    pub min_tokens: usize,
    /// Ids that end the answer.
    pub eos: Vec<TokenId>,
    /// A stop that ends the answer with this many tokens.
    pub stop_after: Option<usize>,
    /// What the tokens say, and stop strings, which count where `stop_after` is not given.
    pub spelled: Option<Spelled>,
}

/// Tokens as text.
#[derive(Clone, Debug)]
pub struct Spelled {
    /// What tokens stand for.
    pub text: Arc<TextModel>,
    /// Strings that end an answer.
    pub stops: Vec<String>,
}

impl Ask {
    /// Greedy, without end tokens.
    pub fn greedy(prompt: &[TokenId], max_tokens: usize) -> Self {
        Self {
            prompt: prompt.to_vec(),
            sampling: SamplingSettings { temperature: 0.0, ..SamplingSettings::default() },
            choice: 0,
            max_tokens,
            min_tokens: 0,
            eos: Vec::new(),
            stop_after: None,
            spelled: None,
        }
    }

    /// The request, for blocks of `width` rows; `None` asks for no speculation.
    pub fn request(&self, vocabulary: &Vocabulary, width: Option<Width>) -> Result<Request, Failure> {
        let settings = AnswerSettings {
            sampling: self.sampling.clone(),
            stop: self.spelled.as_ref().map(|spelled| spelled.stops.clone()).unwrap_or_default(),
            max_tokens: self.max_tokens,
            min_tokens: self.min_tokens,
            ignore_eos: false,
        };
        let checked =
            settings.check(vocabulary.columns()).map_err(|error| Failure::Fixture(error.to_string()))?;
        let speculation = width.map_or(Speculation::Off, Speculation::Fixed);
        let mut request = match &self.spelled {
            Some(spelled) => {
                let stream = spelled.text.raw_stream(checked.stops(), SpecialTokens::Skip);
                checked.request(self.prompt.clone(), &spelled.text, &stream, self.choice, speculation)
            }
            None => Request {
                prompt: self.prompt.clone(),
                sampling: checked.sampling().clone(),
                choice: self.choice,
                max_tokens: self.max_tokens,
                min_tokens: self.min_tokens,
                eos: Vec::new(),
                watch: None,
                speculation,
            },
        };
        request.eos.clone_from(&self.eos);
        if let Some(left) = self.stop_after {
            request.watch = Some(Box::new(Countdown(left)));
        }
        Ok(request)
    }

    /// The text of an answer, as it is sent: without end tokens, up to the stop string.
    pub fn text_of(&self, answer: &[TokenId]) -> Result<String, Failure> {
        let Some(Spelled { text, stops }) = &self.spelled else { return Ok(String::new()) };
        let stops = StopMatcher::new(if self.stop_after.is_some() { &[] } else { stops.as_slice() });
        let stops = stops.map_err(|error| Failure::Fixture(error.to_string()))?;
        let mut stream = text.raw_stream(stops, SpecialTokens::Skip);
        let words = answer.iter().filter(|token| !self.eos.contains(token));
        let mut pieces: Vec<_> =
            words.flat_map(|token| stream.push(&text.tokenizer, *token).pieces).collect();
        pieces.extend(stream.finish());
        Ok(pieces.into_iter().map(|piece| piece.text).collect())
    }
}

struct Countdown(usize);

impl Watch for Countdown {
    fn ends_with(&mut self, _token: TokenId) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 == 0
    }
}

/// A request that was served.
#[derive(Clone, Debug)]
pub struct Run {
    /// All tokens, with their log-probabilities where the request asks for them.
    pub decisions: Vec<Decision>,
    /// The rounds after the first token.
    pub rounds: Vec<Round>,
    /// Why it ended.
    pub finish: Finish,
    /// The counters.
    pub report: Report,
    /// The text of the answer, if the request says what its tokens stand for.
    pub text: String,
    /// What the state holds at the end, layer by layer.
    pub state: Vec<Vec<f32>>,
}

impl Run {
    /// The emitted tokens.
    pub fn tokens(&self) -> Vec<TokenId> {
        self.decisions.iter().map(|decision| decision.token).collect()
    }
}

/// What a round proposed and emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Proposed tokens that were checked.
    pub proposals: Vec<TokenId>,
    /// Proposed tokens after them that were not.
    pub left_out: usize,
    /// Emitted tokens: the accepted proposals, and the target's own token unless the answer ended before it.
    pub emitted: Vec<TokenId>,
}

impl Round {
    /// Proposals that were emitted.
    pub fn accepted(&self) -> usize {
        self.proposals.iter().zip(&self.emitted).take_while(|(proposed, emitted)| proposed == emitted).count()
    }
}

/// Serves `ask` with blocks of `width` rows.
///
/// # Errors
/// Besides the engine's own: between rounds the state's length is not prompt + emitted − 1, the drafter was not handed
/// exactly the committed rows, or the counters do not tell what happened.
pub fn run(models: Models<'_>, ask: &Ask, width: Option<Width>) -> Result<Run, Failure> {
    serve(models, ask, ask.request(models.vocabulary, width)?, &[])
}

/// Serves `ask` with blocks as wide as `speculation` says.
///
/// # Errors
/// Those of [`run`].
pub fn run_by(models: Models<'_>, ask: &Ask, speculation: Speculation) -> Result<Run, Failure> {
    let request = ask.request(models.vocabulary, None)?;
    serve(models, ask, Request { speculation, ..request }, &[])
}

/// Serves `ask` with rounds of these widths in turn, again and again: 1 parks the request, and the drafter sees what it
/// missed when it goes on.
///
/// # Errors
/// Those of [`run`].
pub fn run_planned(models: Models<'_>, ask: &Ask, widths: &[Width]) -> Result<Run, Failure> {
    let widest = widths.iter().copied().max().unwrap_or(Width::ONE);
    let policy = WidthPolicy::new(SharedEvidence::default(), &widths.iter().copied().collect(), widest);
    let request = ask.request(models.vocabulary, None)?;
    serve(models, ask, Request { speculation: Speculation::Adaptive(policy), ..request }, widths)
}

fn serve(models: Models<'_>, ask: &Ask, request: Request, plan: &[Width]) -> Result<Run, Failure> {
    let mut sequence = Sequence::new(models, request)?;
    let (mut decisions, mut rounds) = (Vec::new(), Vec::new());
    let finish = loop {
        if !plan.is_empty() && !decisions.is_empty() {
            sequence.set_next_width(plan[rounds.len() % plan.len()]);
        }
        match sequence.step() {
            Step::Done(finish) => break finish,
            Step::Prefill => {
                let output = forward(models, &mut sequence, Sequence::prefill_segment)?;
                decisions.extend(sequence.prefilled(output)?);
            }
            Step::Observe => observe(models, &mut sequence)?,
            Step::Round => {
                let round = round(models, &mut sequence, &mut decisions)?;
                rounds.push(round);
            }
        }
        check_lengths(&mut sequence, ask.prompt.len(), decisions.len())?;
    };
    let report = sequence.report().clone();
    let state = sequence.state().contents()?;
    let tokens: Vec<_> = decisions.iter().map(|decision| decision.token).collect();
    let run = Run { text: ask.text_of(&tokens)?, decisions, rounds, finish, report, state };
    counters(&run, ask)?;
    Ok(run)
}

fn forward(
    models: Models<'_>,
    sequence: &mut Sequence,
    segment: fn(&mut Sequence) -> mlxcel_core::family::Segment<'_>,
) -> Result<Output, Failure> {
    let mut outputs = models.target.forward(&mut [segment(sequence)])?;
    ensure!(outputs.len() == 1, "a forward of one segment gave {} outputs", outputs.len());
    Ok(outputs.remove(0))
}

fn observe(models: Models<'_>, sequence: &mut Sequence) -> Result<(), Failure> {
    if let Some(drafter) = models.drafter {
        drafter.observe(&mut sequence.observe_jobs(PIECE)?)?;
    }
    sequence.observed();
    Ok(())
}

fn round(
    models: Models<'_>,
    sequence: &mut Sequence,
    decisions: &mut Vec<Decision>,
) -> Result<Round, Failure> {
    let mut proposals = match (models.drafter, sequence.draft_job()?) {
        (Some(drafter), Some(job)) => {
            let (count, mut made) = (job.count, drafter.propose(&mut [job])?);
            ensure!(made.len() == 1, "one draft gave {} lists of proposals", made.len());
            ensure!(made[0].len() <= count, "{} proposals, {count} were asked for", made[0].len());
            made.remove(0)
        }
        _ => Vec::new(),
    };
    sequence.drafted(proposals.clone())?;
    let left_out = (proposals.len() + 1).saturating_sub(sequence.block_rows());
    proposals.truncate(sequence.block_rows().saturating_sub(1));
    let output = forward(models, sequence, Sequence::segment)?;
    let emitted = sequence.decide(output)?;
    let round =
        Round { proposals, left_out, emitted: emitted.iter().map(|decision| decision.token).collect() };
    decisions.extend(emitted);
    Ok(round)
}

/// Committed length = prompt + emitted − 1, for the state, and for what the drafter saw and is about to see.
fn check_lengths(sequence: &mut Sequence, prompt: usize, emitted: usize) -> Result<(), Failure> {
    ensure!(!sequence.state().is_open(), "a block is open between rounds");
    if emitted == 0 {
        return Ok(());
    }
    let (found, expected) = (sequence.state().len()?, prompt + emitted - 1);
    ensure!(found == expected, "the state holds {found} rows, expected prompt + emitted - 1 = {expected}");
    let jobs = sequence.observe_jobs(PIECE)?;
    let handed = jobs.first().map(|job| (job.start.0, job.context.len(), job.taps.rows()));
    drop(jobs);
    if let Some((start, context, rows)) = handed {
        let waiting = sequence.situation().backlog;
        ensure!(start + waiting == expected, "{waiting} rows wait behind {start}, expected up to {expected}");
        ensure!((1..=PIECE.min(waiting)).contains(&rows), "{rows} rows of {waiting} are handed out at once");
        ensure!(context == start, "the drafter's context has {context} rows, expected {start}");
    } else {
        // Nothing waits, so it has seen all.
        let seen = sequence.drafter_has_seen();
        ensure!(seen == Seen::All, "nothing waits for the drafter, and it has not seen all {expected} rows");
    }
    Ok(())
}

/// Whether the counters of a run tell what happened in its rounds.
pub fn counters(run: &Run, ask: &Ask) -> Check {
    let mut expected = Report {
        kind: run.report.kind,
        family: run.report.family,
        width: run.report.width,
        adaptive: run.report.adaptive,
        phases: run.report.phases,
        prompt_tokens: ask.prompt.len(),
        emitted: run.decisions.len(),
        rounds: run.rounds.len(),
        decline: run.report.decline,
        verdicts: run.report.verdicts.clone(),
        inexact: run.report.inexact,
        confidence_used: run.report.confidence_used,
        seed: run.report.seed,
        prefill_time: run.report.prefill_time,
        decode_time: run.report.decode_time,
        ..Report::default()
    };
    let mut widths = BTreeMap::new();
    for round in &run.rounds {
        let (proposed, accepted) = (round.proposals.len(), round.accepted());
        expected.rows_cut += round.left_out;
        expected.proposed += proposed;
        expected.accepted += accepted;
        *widths.entry(proposed + 1).or_default() += 1;
        for (counts, to) in
            [(&mut expected.proposed_by_position, proposed), (&mut expected.accepted_by_position, accepted)]
        {
            counts.resize(counts.len().max(to), 0);
            counts[..to].iter_mut().for_each(|count| *count += 1);
        }
    }
    expected.widths = widths;
    let accepted = &mut expected.accepted_by_position;
    accepted.resize(expected.proposed_by_position.len(), 0);
    ensure!(run.report == expected, "the counters are {:?}, expected {expected:?}", run.report);
    Ok(())
}

/// The vocabulary of a target of which every id may be emitted.
pub fn whole_vocabulary(columns: usize) -> Arc<Vocabulary> {
    Arc::new(Vocabulary::all(columns))
}
