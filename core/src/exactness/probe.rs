//! The comparison of blocks with chains.

use std::sync::Arc;

use super::{
    decide::DecideRows,
    scene::{Scene, token},
    verdict::{Difference, What},
};
use crate::{
    Error, Kept, Position, Result, TokenId, Width,
    family::{LogitRows, Segment, Target, Want, forward_one},
    nn::Tensor,
    sampling::{Decision, History, Sampler, SamplingSettings, Seed, Vocabulary},
    speculative::next_chunk,
    state::SequenceState,
};

/// A target, and how its rows are decided.
pub(super) struct Prober<'a> {
    pub(super) target: &'a dyn Target,
    pub(super) decide: &'a dyn DecideRows,
    /// Blocks have at most this many rows.
    pub(super) widest: Width,
    samplers: [Sampler; 2],
}

/// What one row gave: its logits as they lie in memory, and a decision a setting.
struct Row {
    logits: Vec<u8>,
    decisions: Vec<Decision>,
}

impl<'a> Prober<'a> {
    pub(super) fn new(
        target: &'a dyn Target,
        decide: &'a dyn DecideRows,
        vocabulary: &Arc<Vocabulary>,
        widest: Width,
    ) -> Self {
        let samplers = [greedy(), sampled()].map(|settings| {
            #[expect(clippy::expect_used, reason = "both settings are constants within every range")]
            let checked = settings.validate(vocabulary.columns()).expect("settings in range");
            Sampler::new(checked, 0, Arc::clone(vocabulary))
        });
        Self { target, decide, widest, samplers }
    }

    /// Compares a block of each of `widths` with the chain of single rows, as far as both fit the context. Gives the widths
    /// that fit, each with its difference, if there is one.
    pub(super) fn run(&self, scene: &Scene, widths: &[Width]) -> Result<Vec<(Width, Option<Difference>)>> {
        let spec = self.target.spec();
        let fits = |width: &Width| scene.prefix + scene.rows_for(*width) <= spec.context;
        let widths: Vec<_> = widths.iter().copied().filter(fits).collect();
        let Some(rows) = widths.iter().map(|width| scene.rows_for(*width)).max() else {
            return Ok(Vec::new());
        };
        let tokens: Vec<_> = (0..scene.prefix + rows).map(|position| token(position, spec.vocab)).collect();
        let (prompt, chain) = tokens.split_at(scene.prefix);
        let mut state = self.target.new_state(self.widest);
        self.prefill(&mut state, prompt)?;
        let expected = self.chain(state.fork(), prompt, chain)?;
        let mut found = Vec::with_capacity(widths.len());
        for width in widths {
            found.push((width, self.block(scene, width, &mut state, &tokens, &expected)?));
        }
        Ok(found)
    }

    /// The prompt, in the chunks in which requests take theirs.
    fn prefill(&self, state: &mut SequenceState, prompt: &[TokenId]) -> Result<()> {
        let mut done = 0;
        while done < prompt.len() {
            let chunk = next_chunk(done, prompt.len());
            done = chunk.end;
            forward_one(self.target, Segment { tokens: &prompt[chunk], state, want: Want::default() })?;
            state.eval()?;
        }
        Ok(())
    }

    /// One row after the other, as classic decoding does.
    fn chain(&self, mut state: SequenceState, prompt: &[TokenId], chain: &[TokenId]) -> Result<Vec<Row>> {
        let mut history = History::new(prompt);
        let mut rows = Vec::with_capacity(chain.len());
        for (i, token) in chain.iter().enumerate() {
            let logits = self.forward(&mut state, &[*token], Kept(1))?;
            history.push(*token);
            let mut decisions = Vec::with_capacity(self.samplers.len());
            for sampler in &self.samplers {
                let position = Position(prompt.len() + i + 1);
                decisions.extend(self.decide.decide_rows(sampler, &logits, position, &mut history, &[])?);
            }
            rows.push(Row { logits: logits.to_bytes()?, decisions });
        }
        Ok(rows)
    }

    /// The block of `width` rows of the scene; afterwards `state` is what it was.
    fn block(
        &self,
        scene: &Scene,
        width: Width,
        state: &mut SequenceState,
        tokens: &[TokenId],
        chain: &[Row],
    ) -> Result<Option<Difference>> {
        let kept = scene.kept_of(width);
        let mut forked;
        let state = if kept == 0 {
            state
        } else {
            forked = state.fork();
            let mut first = tokens[scene.prefix..][..width.rows()].to_vec();
            for token in &mut first[kept..] {
                token.0 = (token.0 + 1) % self.target.spec().vocab as u32;
            }
            self.forward(&mut forked, &first, Kept(kept))?;
            &mut forked
        };
        let start = scene.prefix + kept;
        let block = &tokens[start..start + width.rows()];
        let expected = &chain[kept..kept + width.rows()];
        let logits = self.forward(state, block, Kept(0))?;
        let differing = differing_bytes(&logits, expected)?;
        let what = if differing.0 > 0 {
            What::LogitBytes { differing: differing.0, of: differing.1 }
        } else {
            let differing =
                self.differing_decisions(&logits, &tokens[..scene.prefix], start, tokens, expected)?;
            if differing == 0 {
                return Ok(None);
            }
            What::Decisions { differing, of: self.samplers.len() * expected.len() }
        };
        Ok(Some(Difference { width, place: scene.place, context: start, what }))
    }

    /// Decisions made from the block's rows, the first of them of the token at `start`, that are not the chain's.
    fn differing_decisions(
        &self,
        logits: &Tensor,
        prompt: &[TokenId],
        start: usize,
        tokens: &[TokenId],
        expected: &[Row],
    ) -> Result<usize> {
        let mut history = History::new(prompt);
        tokens[prompt.len()..=start].iter().for_each(|token| history.push(*token));
        let follow = &tokens[start + 1..start + expected.len()];
        let mut differing = 0;
        for (nth, sampler) in self.samplers.iter().enumerate() {
            let position = Position(start + 1);
            let found = self.decide.decide_rows(sampler, logits, position, &mut history, follow)?;
            if found.len() != expected.len() {
                return Err(Error::shape("decisions of a block", found.len(), expected.len()));
            }
            let equal = |(found, row): (&Decision, &Row)| row.decisions.get(nth) == Some(found);
            differing += found.iter().zip(expected).filter(|pair| !equal(*pair)).count();
        }
        Ok(differing)
    }

    /// A block over `tokens` of which `kept` rows stay; the logits of all its rows, computed.
    fn forward(&self, state: &mut SequenceState, tokens: &[TokenId], kept: Kept) -> Result<Tensor> {
        state.begin(Width::new(tokens.len()).ok_or(Error::EmptySegment)?)?;
        let want = Want { logits: LogitRows::All, taps: &[] };
        let output = forward_one(self.target, Segment { tokens, state: &mut *state, want })?;
        let logits =
            output.logits.ok_or(Error::Shape { what: "rows of logits", found: 0, expected: tokens.len() })?;
        logits.eval()?;
        state.commit(kept)?;
        state.eval()?;
        Ok(logits)
    }
}

/// Bytes of the block's logits that differ from the chain's, and all of them.
fn differing_bytes(logits: &Tensor, expected: &[Row]) -> Result<(usize, usize)> {
    let found = logits.to_bytes()?;
    let total = expected.iter().map(|row| row.logits.len()).sum();
    if found.len() != total {
        return Err(Error::shape("bytes of a block's logits", found.len(), total));
    }
    let chain = expected.iter().flat_map(|row| &row.logits);
    Ok((found.iter().zip(chain).filter(|(a, b)| a != b).count(), total))
}

/// The likeliest token, with log-probabilities.
fn greedy() -> SamplingSettings {
    SamplingSettings { temperature: 0.0, logprobs: Some(1), ..SamplingSettings::default() }
}

/// Drawn, with a penalty that looks back and filters that cut.
fn sampled() -> SamplingSettings {
    SamplingSettings {
        temperature: 0.8,
        top_k: 50,
        top_p: 0.95,
        repetition_penalty: 1.1,
        seed: Some(Seed(0x5eed)),
        logprobs: Some(1),
        ..SamplingSettings::default()
    }
}
