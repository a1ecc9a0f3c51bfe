//! The objects of the two routes, whole and in chunks.

use std::time::{SystemTime, UNIX_EPOCH};

use mlxcel_core::{sampling::Seed, text::Tokenizer};
use serde_json::{Map, Value, json};

use super::{
    logprobs,
    transcript::{Delta, Entry},
};

/// Which route answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completion,
}

/// What all chunks of one answer have in common.
pub(super) struct Envelope {
    shape: Shape,
    id: String,
    model: String,
    created: u64,
}

/// Unix time, in seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Envelope {
    pub(super) fn new(shape: Shape, model: String) -> Self {
        let prefix = match shape {
            Shape::Chat => "chatcmpl",
            Shape::Completion => "cmpl",
        };
        Self { shape, id: format!("{prefix}-{:016x}", Seed::random().0), model, created: now() }
    }

    fn object(&self, kind: &str, choices: Vec<Value>) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("id".to_owned(), self.id.as_str().into());
        object.insert("object".to_owned(), kind.into());
        object.insert("created".to_owned(), self.created.into());
        object.insert("model".to_owned(), self.model.as_str().into());
        object.insert("choices".to_owned(), choices.into());
        object
    }

    fn chunk(&self, choices: Vec<Value>) -> Map<String, Value> {
        let kind = match self.shape {
            Shape::Chat => "chat.completion.chunk",
            Shape::Completion => "text_completion",
        };
        self.object(kind, choices)
    }

    fn logprobs(&self, tokenizer: &Tokenizer, entries: &[Entry]) -> Value {
        match self.shape {
            Shape::Chat => logprobs::chat(tokenizer, entries),
            Shape::Completion => logprobs::completion(tokenizer, entries),
        }
    }

    /// The first chunk, before anything is known: the role. The completion route has none.
    pub(super) fn opening(&self) -> Option<Map<String, Value>> {
        (self.shape == Shape::Chat).then(|| {
            let delta = json!({"role": "assistant", "content": ""});
            self.chunk(vec![json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null})])
        })
    }

    /// A chunk with text, and with the reason if it is the last one. `logprobs` says whether they were asked for.
    pub(super) fn delta(
        &self,
        tokenizer: &Tokenizer,
        delta: &Delta,
        finish: Option<&str>,
        logprobs: bool,
    ) -> Map<String, Value> {
        let logprobs = if logprobs && !delta.logprobs.is_empty() {
            self.logprobs(tokenizer, &delta.logprobs)
        } else {
            Value::Null
        };
        let choice = match self.shape {
            Shape::Chat => {
                let mut part = Map::new();
                if !delta.reasoning.is_empty() {
                    part.insert("reasoning_content".to_owned(), delta.reasoning.as_str().into());
                }
                if !delta.content.is_empty() {
                    part.insert("content".to_owned(), delta.content.as_str().into());
                }
                json!({"index": 0, "delta": part, "logprobs": logprobs, "finish_reason": finish})
            }
            Shape::Completion => {
                let text = format!("{}{}", delta.reasoning, delta.content);
                json!({"index": 0, "text": text, "logprobs": logprobs, "finish_reason": finish})
            }
        };
        self.chunk(vec![choice])
    }

    /// The chunk with the usage and no choice.
    pub(super) fn usage(&self, usage: Value) -> Map<String, Value> {
        let mut chunk = self.chunk(Vec::new());
        chunk.insert("usage".to_owned(), usage);
        chunk
    }

    /// The whole answer.
    pub(super) fn whole(
        &self,
        tokenizer: &Tokenizer,
        all: &Delta,
        finish: &str,
        logprobs: bool,
    ) -> Map<String, Value> {
        let logprobs = if logprobs { self.logprobs(tokenizer, &all.logprobs) } else { Value::Null };
        match self.shape {
            Shape::Chat => {
                let mut message = Map::new();
                message.insert("role".to_owned(), "assistant".into());
                message.insert("content".to_owned(), all.content.as_str().into());
                if !all.reasoning.is_empty() {
                    message.insert("reasoning_content".to_owned(), all.reasoning.as_str().into());
                }
                let choice =
                    json!({"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish});
                self.object("chat.completion", vec![choice])
            }
            Shape::Completion => {
                let text = format!("{}{}", all.reasoning, all.content);
                let choice = json!({"index": 0, "text": text, "logprobs": logprobs, "finish_reason": finish});
                self.object("text_completion", vec![choice])
            }
        }
    }
}
