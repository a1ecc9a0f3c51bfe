//! Log-probabilities in the two forms of the protocol.

use mlxcel_core::{
    TokenId,
    sampling::TokenLogprob,
    text::{SpecialTokens, Tokenizer},
};
use serde_json::{Map, Value, json};

use super::transcript::Entry;

/// `choices[].logprobs` of the chat route.
pub(super) fn chat(tokenizer: &Tokenizer, entries: &[Entry]) -> Value {
    let content: Vec<_> = entries
        .iter()
        .map(|entry| {
            let mut one = token(tokenizer, entry.logprobs.emitted);
            let top: Vec<_> =
                entry.logprobs.top.iter().map(|&top| Value::Object(token(tokenizer, top))).collect();
            one.insert("top_logprobs".to_owned(), top.into());
            Value::Object(one)
        })
        .collect();
    json!({"content": content})
}

/// `choices[].logprobs` of the completion route.
pub(super) fn completion(tokenizer: &Tokenizer, entries: &[Entry]) -> Value {
    let tokens: Vec<_> = entries.iter().map(|entry| text(tokenizer, entry.logprobs.emitted.token)).collect();
    let logprobs: Vec<_> = entries.iter().map(|entry| finite(entry.logprobs.emitted.logprob)).collect();
    let top: Vec<_> = entries
        .iter()
        .map(|entry| {
            let pairs = entry.logprobs.top.iter();
            pairs.map(|top| (text(tokenizer, top.token), finite(top.logprob).into())).collect::<Map<_, _>>()
        })
        .collect();
    let offsets: Vec<_> = entries.iter().map(|entry| entry.offset).collect();
    json!({"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": top, "text_offset": offsets})
}

fn token(tokenizer: &Tokenizer, one: TokenLogprob) -> Map<String, Value> {
    // A special token leaves no text, so the bytes of all tokens put together are those of the answer.
    let bytes =
        if tokenizer.is_special(one.token) { &[] } else { tokenizer.bytes(one.token).unwrap_or_default() };
    Map::from_iter([
        ("token".to_owned(), text(tokenizer, one.token).into()),
        ("logprob".to_owned(), finite(one.logprob).into()),
        ("bytes".to_owned(), bytes.into()),
    ])
}

/// The token's own text; U+FFFD for a part of a character.
fn text(tokenizer: &Tokenizer, token: TokenId) -> String {
    tokenizer.decode(&[token], SpecialTokens::Keep)
}

/// JSON has no infinity: what cannot come has the number that others write for it.
fn finite(logprob: f64) -> f64 {
    logprob.clamp(-9999.0, 0.0)
}
