//! What a scripted request must give, by a loop without states, taps, blocks or chooser.

use std::sync::Arc;

use mlxcel_core::{
    Position, TokenId, Width,
    sampling::{History, Sampler, Vocabulary},
    speculative::Finish,
    text::SpecialTokens,
};

use super::Script;
use crate::{
    Check, Failure, ensure,
    rounds::{Ask, Round, Run, Spelled},
};

/// The answer token by token, and the rounds that speculation makes of it.
pub struct Reference<'a> {
    script: Script,
    ask: &'a Ask,
    context: usize,
    sampler: Sampler,
    vocabulary: Arc<Vocabulary>,
}

impl<'a> Reference<'a> {
    /// The reference for `ask` on a target with room for `context` rows.
    pub fn new(
        script: Script,
        ask: &'a Ask,
        context: usize,
        vocabulary: &Arc<Vocabulary>,
    ) -> Result<Self, Failure> {
        let request = ask.request(vocabulary, None)?;
        let sampler = Sampler::new(request.sampling, request.choice, Arc::clone(vocabulary));
        Ok(Self { script, ask, context, sampler, vocabulary: Arc::clone(vocabulary) })
    }

    /// Whether `run` is what must come out, with blocks of `width` rows.
    pub fn check(&self, run: &Run, width: Width) -> Check {
        let (answer, finish) = self.answer()?;
        let tokens = run.tokens();
        ensure!(tokens == answer, "tokens {tokens:?}, expected {answer:?}");
        ensure!(run.finish == finish, "ends with {:?}, expected {finish:?}", run.finish);
        let text = self.text(&answer);
        ensure!(run.text == text, "the text is {:?}, expected {text:?}", run.text);
        self.logprobs(run)?;
        let rounds = self.rounds(&answer, width)?;
        ensure!(run.rounds == rounds, "rounds {:?}, expected {rounds:?}", run.rounds);
        Ok(())
    }

    fn answer(&self) -> Result<(Vec<TokenId>, Finish), Failure> {
        let (prompt, ask) = (self.ask.prompt.len(), self.ask);
        let mut answer = Vec::new();
        if ask.max_tokens == 0 {
            return Ok((answer, Finish::MaxTokens));
        }
        loop {
            let token = self.choose(&answer, &self.script.target(&self.all(&answer)))?;
            answer.push(token);
            let finish = if ask.eos.contains(&token) {
                Finish::Eos
            } else if ask.stop_after == Some(answer.len()) || self.stop(&answer).is_some() {
                Finish::Stop
            } else if answer.len() == ask.max_tokens {
                Finish::MaxTokens
            } else if prompt + answer.len() > self.context {
                Finish::Context
            } else {
                continue;
            };
            return Ok((answer, finish));
        }
    }

    /// All words of the answer put together; end tokens are none.
    fn words(&self, answer: &[TokenId]) -> String {
        let Some(Spelled { text, .. }) = &self.ask.spelled else { return String::new() };
        let words: Vec<_> = answer.iter().filter(|token| !self.ask.eos.contains(token)).copied().collect();
        text.tokenizer.decode(&words, SpecialTokens::Skip)
    }

    /// Where the text before the stop string that is complete first ends, of those that end together the longest.
    fn stop(&self, answer: &[TokenId]) -> Option<usize> {
        let Spelled { stops, .. } = self.ask.spelled.as_ref().filter(|_| self.ask.stop_after.is_none())?;
        let text = self.words(answer);
        let ends = stops.iter().filter_map(|stop| text.find(stop).map(|at| (at + stop.len(), at)));
        ends.min().map(|(_, start)| start)
    }

    fn text(&self, answer: &[TokenId]) -> String {
        let mut text = self.words(answer);
        text.truncate(self.stop(answer).unwrap_or(text.len()));
        text
    }

    /// Log-probabilities of every token, from the definition: raw logits, all columns, best first, equal ones by id.
    fn logprobs(&self, run: &Run) -> Check {
        let mut answer = Vec::new();
        for (nth, decision) in run.decisions.iter().enumerate() {
            let raw = self.script.target(&self.all(&answer));
            answer.push(decision.token);
            let Some(count) = self.ask.sampling.logprobs else {
                ensure!(decision.logprobs.is_none(), "token {nth} has log-probabilities nobody asked for");
                continue;
            };
            let total: f64 = raw.iter().map(|&logit| f64::from(logit).exp()).sum();
            let of = |id: TokenId| f64::from(raw[id.index()]) - total.ln();
            let mut known: Vec<_> =
                (0..raw.len() as u32).map(TokenId).filter(|&id| self.vocabulary.knows(id)).collect();
            known.sort_by(|a, b| of(*b).total_cmp(&of(*a)));
            known.truncate(count);
            let Some(found) = &decision.logprobs else {
                return Err(Failure::Broken(format!("token {nth} has no log-probabilities")));
            };
            let top: Vec<_> = found.top.iter().map(|top| top.token).collect();
            ensure!(top == known, "token {nth}: the likeliest are {top:?}, expected {known:?}");
            ensure!(found.emitted.token == decision.token, "token {nth}: log-probability of another token");
            for one in found.top.iter().chain([&found.emitted]) {
                let expected = of(one.token);
                let near = (one.logprob - expected).abs() < 1e-5;
                ensure!(
                    near,
                    "token {nth}: log-probability {} of {}, expected {expected}",
                    one.logprob,
                    one.token
                );
            }
        }
        Ok(())
    }

    fn rounds(&self, answer: &[TokenId], width: Width) -> Result<Vec<Round>, Failure> {
        let mut rounds = Vec::new();
        let mut emitted = 1;
        while emitted < answer.len() {
            let budget = self.ask.max_tokens - emitted;
            let room = self.context - (self.ask.prompt.len() + emitted - 1);
            let mut chain = answer[..emitted].to_vec();
            for _ in 1..width.rows().min(budget).min(room) {
                let logits = self.script.drafter(&self.all(&chain));
                chain.push(self.choose(&chain, &logits)?);
            }
            let proposals = chain.split_off(emitted);
            let rest = &answer[emitted..];
            let right = proposals.iter().zip(rest).take_while(|(a, b)| a == b).count();
            let kept = (right + 1).min(rest.len());
            rounds.push(Round { proposals, left_out: 0, emitted: rest[..kept].to_vec() });
            emitted += kept;
        }
        Ok(rounds)
    }

    fn all(&self, output: &[TokenId]) -> Vec<TokenId> {
        [self.ask.prompt.as_slice(), output].concat()
    }

    fn choose(&self, output: &[TokenId], logits: &[f32]) -> Result<TokenId, Failure> {
        let mut history = History::new(&self.ask.prompt);
        for token in output {
            history.push(*token);
        }
        let suppressed = if output.len() < self.ask.min_tokens { self.ask.eos.as_slice() } else { &[] };
        let position = Position(self.ask.prompt.len() + output.len());
        let token = self.sampler.pick(logits, position, &history, suppressed);
        token.map_err(|error| Failure::Core(error.into()))
    }
}
