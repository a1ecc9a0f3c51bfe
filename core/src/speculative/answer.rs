//! What a request asks of its answer: checked once, in one place, for everybody who takes requests.

use std::sync::Arc;

use super::{Request, Speculation, Watch};
use crate::{
    TokenId,
    sampling::{CheckedSettings, SamplingSettings, SettingsError},
    text::{EosSet, StopError, StopMatcher, TextModel, TextStream},
};

/// What is asked of an answer, as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerSettings {
    /// How tokens are decided.
    pub sampling: SamplingSettings,
    /// Strings that end the answer; they are no part of it.
    pub stop: Vec<String>,
    /// Tokens at most.
    pub max_tokens: usize,
    /// Tokens before an end token may come. A stop string ends the answer in any case.
    pub min_tokens: usize,
    /// Whether end tokens are decided like any other and end nothing.
    pub ignore_eos: bool,
}

/// A wish that cannot be served. Each names the setting, what was found and what would be right.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AnswerError {
    /// A setting of the sampler.
    #[error(transparent)]
    Sampling(#[from] SettingsError),
    /// A stop string.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The answer would have to be longer than it may be.
    #[error("min_tokens: {min} is out of range, expected 0 to max_tokens = {max}")]
    MinTokens {
        /// Least number of tokens asked for.
        min: usize,
        /// Most tokens asked for.
        max: usize,
    },
}

/// Settings that passed [`AnswerSettings::check`]; the seed is known.
#[derive(Clone, Debug)]
pub struct CheckedAnswer {
    sampling: CheckedSettings,
    stops: StopMatcher,
    max_tokens: usize,
    min_tokens: usize,
    ignore_eos: bool,
}

impl AnswerSettings {
    /// Checks everything; token ids must lie below `vocabulary`, one more than the highest id that may be emitted.
    pub fn check(self, vocabulary: usize) -> Result<CheckedAnswer, AnswerError> {
        let Self { sampling, stop, max_tokens, min_tokens, ignore_eos } = self;
        let (sampling, stops) = (sampling.validate(vocabulary)?, StopMatcher::new(&stop)?);
        if min_tokens > max_tokens {
            return Err(AnswerError::MinTokens { min: min_tokens, max: max_tokens });
        }
        Ok(CheckedAnswer { sampling, stops, max_tokens, min_tokens, ignore_eos })
    }
}

impl CheckedAnswer {
    /// How tokens are decided.
    pub fn sampling(&self) -> &CheckedSettings {
        &self.sampling
    }

    /// A matcher of the stop strings, at the start of an answer: for the [`TextStream`] that makes its text.
    pub fn stops(&self) -> StopMatcher {
        self.stops.clone()
    }

    /// Tokens at most.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The tokens that end the answer: those of the checkpoint, or none.
    pub fn eos(&self, checkpoint: &EosSet) -> Vec<TokenId> {
        if self.ignore_eos { Vec::new() } else { checkpoint.iter().collect() }
    }

    /// The request for choice `choice`: `stream` is the one that will make the answer's text, with the stop strings of
    /// [`Self::stops`] in it and no token pushed. A clone of it watches, so that the answer ends with the token that
    /// completes a stop string.
    pub fn request(
        &self,
        prompt: Vec<TokenId>,
        text: &Arc<TextModel>,
        stream: &TextStream,
        choice: u64,
        speculation: Speculation,
    ) -> Request {
        let watch =
            || Box::new(StopWatch { text: Arc::clone(text), stream: stream.clone() }) as Box<dyn Watch>;
        Request {
            prompt,
            sampling: self.sampling.clone(),
            choice,
            max_tokens: self.max_tokens,
            min_tokens: self.min_tokens,
            eos: self.eos(&text.eos),
            watch: (!self.stops.is_empty()).then(watch),
            speculation,
        }
    }
}

/// Ends an answer at its first stop string.
struct StopWatch {
    text: Arc<TextModel>,
    stream: TextStream,
}

impl Watch for StopWatch {
    fn ends_with(&mut self, token: TokenId) -> bool {
        // End tokens are no text, whether they end the answer or not.
        !self.text.eos.contains(token) && self.stream.push(&self.text.tokenizer, token).stop.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::testing;

    fn settings() -> AnswerSettings {
        let sampling = SamplingSettings::default();
        AnswerSettings { sampling, stop: Vec::new(), max_tokens: 16, min_tokens: 0, ignore_eos: false }
    }

    fn refusal(change: impl FnOnce(&mut AnswerSettings)) -> String {
        let mut settings = settings();
        change(&mut settings);
        settings.check(100).unwrap_err().to_string()
    }

    #[test]
    fn refusals_read_well() {
        let all = [
            refusal(|s| s.sampling.temperature = -1.0),
            refusal(|s| s.stop = vec!["a".to_owned(), String::new()]),
            refusal(|s| s.min_tokens = 17),
        ];
        insta::assert_snapshot!(all.join("\n"), @r"
        temperature: -1 is out of range, expected 0 to 1000000 (0 is greedy)
        stop[1] is empty; expected at least one letter
        min_tokens: 17 is out of range, expected 0 to max_tokens = 16
        ");
    }

    #[test]
    fn end_tokens_are_those_of_the_checkpoint_or_none() {
        let text = TextModel::load(&testing::tracked_files()).unwrap();
        let eos = |ignore_eos| AnswerSettings { ignore_eos, ..settings() }.check(100).unwrap().eos(&text.eos);
        assert_eq!(eos(false), text.eos.iter().collect::<Vec<_>>());
        assert_eq!(eos(true), []);
    }

    /// Which token of `answer` ends it, by the watch of a request with these stop strings.
    fn ends_with(stop: &[&str], answer: &str) -> Option<usize> {
        let text = Arc::new(TextModel::load(&testing::tracked_files()).unwrap());
        let stop = stop.iter().map(|&stop| stop.to_owned()).collect();
        let checked = AnswerSettings { stop, ..settings() }.check(100).unwrap();
        let prompt = text.tokenizer.encode("Hi").unwrap();
        let stream = text.chat_stream(&prompt, checked.stops());
        let mut watch = checked.request(prompt, &text, &stream, 0, Speculation::Off).watch?;
        text.tokenizer.encode(answer).unwrap().into_iter().position(|token| watch.ends_with(token))
    }

    #[test]
    fn a_request_ends_with_the_token_that_completes_a_stop_string() {
        assert_eq!(ends_with(&[], "a b c"), None);
        assert_eq!(ends_with(&["zzz"], "a b c"), None);
        let text = TextModel::load(&testing::tracked_files()).unwrap();
        let before = text.tokenizer.encode("a b").unwrap().len();
        assert_eq!(ends_with(&[" c"], "a b c d"), Some(before));
        assert_eq!(ends_with(&["<|im_end|>", "d"], "a<|im_end|>d"), Some(2), "an end token is no text");
    }
}
