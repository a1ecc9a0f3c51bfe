//! How tokens are decided and what ends an answer.

use mlxcel_core::{
    TokenId,
    sampling::{SamplingSettings, Vocabulary, bias_id},
    speculative::AnswerSettings,
};
use serde_json::Value;

use super::Fields;
use crate::error::ApiError;

/// Reads the settings; what a request leaves open is as `defaults` has it. `max_tokens` is the cap where it names none.
pub(super) fn settings(
    fields: &Fields<'_>,
    defaults: &SamplingSettings,
    vocabulary: &Vocabulary,
    max_tokens: usize,
) -> Result<AnswerSettings, ApiError> {
    let real = |name: &str, default: f32| -> Result<f32, ApiError> {
        Ok(fields.number(name)?.map_or(default, |value| value as f32))
    };
    let repetition = match fields.number("repetition_penalty")? {
        Some(value) => Some(value),
        None => fields.number("repeat_penalty")?,
    };
    let sampling = SamplingSettings {
        temperature: real("temperature", defaults.temperature)?,
        top_k: top_k(fields)?.unwrap_or(defaults.top_k),
        top_p: fields.number("top_p")?.unwrap_or(defaults.top_p),
        min_p: fields.number("min_p")?.unwrap_or(defaults.min_p),
        repetition_penalty: repetition.map_or(defaults.repetition_penalty, |value| value as f32),
        presence_penalty: real("presence_penalty", defaults.presence_penalty)?,
        frequency_penalty: real("frequency_penalty", defaults.frequency_penalty)?,
        logit_bias: logit_bias(fields, vocabulary)?,
        seed: fields.seed("seed")?.or(defaults.seed),
        logprobs: None,
    };
    let own = match fields.count("max_completion_tokens", 1)? {
        Some(tokens) => Some(tokens),
        None => fields.count("max_tokens", 1)?,
    };
    Ok(AnswerSettings {
        sampling,
        stop: stop(fields)?,
        max_tokens: own.unwrap_or(max_tokens),
        min_tokens: fields.count("min_tokens", 0)?.unwrap_or(0),
        ignore_eos: fields.flag("ignore_eos")?.unwrap_or(false),
    })
}

/// 0 keeps all, and so does −1, as some clients write it.
fn top_k(fields: &Fields<'_>) -> Result<Option<usize>, ApiError> {
    if fields.get("top_k").and_then(Value::as_i64) == Some(-1) {
        return Ok(Some(0));
    }
    fields.count("top_k", 0)
}

/// A string or a list of strings.
fn stop(fields: &Fields<'_>) -> Result<Vec<String>, ApiError> {
    let wrong = |value| fields.wrong("stop", "a string or a list of strings", value);
    match fields.get("stop") {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text.clone()]),
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(item))).collect()
        }
        Some(other) => Err(wrong(other)),
    }
}

/// Token ids, written as strings, and what is added to their logits.
fn logit_bias(fields: &Fields<'_>, vocabulary: &Vocabulary) -> Result<Vec<(TokenId, f32)>, ApiError> {
    let Some(biases) = fields.object("logit_bias")? else { return Ok(Vec::new()) };
    let refuse = |what: String| Err(ApiError::field("logit_bias", what));
    let one = |(key, value): (&String, &Value)| {
        let id = match bias_id(key) {
            Ok(id) if vocabulary.knows(id) => id,
            Ok(id) => return refuse(format!("the model has no token {id}")),
            Err(error) => {
                return Err(ApiError::field("logit_bias", error.to_string().replace("logit_bias: ", "")));
            }
        };
        match value.as_f64() {
            Some(bias) => Ok((id, bias as f32)),
            None => Err(fields.wrong("logit_bias", &format!("a number for token {id}"), value)),
        }
    };
    biases.iter().map(one).collect()
}
