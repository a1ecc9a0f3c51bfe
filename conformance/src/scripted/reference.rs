//! What a scripted request must give, by a loop without states, taps, blocks or chooser.

use std::sync::Arc;

use mlxcel_core::{
    Position, TokenId, Width,
    sampling::{History, Sampler, Vocabulary},
    speculative::Finish,
};

use super::Script;
use crate::{
    Check, Failure, ensure,
    rounds::{Ask, Round, Run},
};

/// The answer token by token, and the rounds that speculation makes of it.
pub struct Reference<'a> {
    script: Script,
    ask: &'a Ask,
    context: usize,
    sampler: Sampler,
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
        Ok(Self { script, ask, context, sampler })
    }

    /// Whether `run` is what must come out, with blocks of `width` rows.
    pub fn check(&self, run: &Run, width: Width) -> Check {
        let (answer, finish) = self.answer()?;
        let tokens = run.tokens();
        ensure!(tokens == answer, "tokens {tokens:?}, expected {answer:?}");
        ensure!(run.finish == finish, "ends with {:?}, expected {finish:?}", run.finish);
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
            } else if ask.stop_after == Some(answer.len()) {
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
            rounds.push(Round { proposals, emitted: rest[..kept].to_vec() });
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
