//! The body of `/v1/completions`.

use mlxcel_core::{TokenId, sampling::MAX_LOGPROBS};
use serde_json::Value;

use super::{Common, Fields};
use crate::{app::App, error::ApiError};

/// Tokens of an answer where a request names no cap, as clients of this old route expect.
const MAX_TOKENS: usize = 16;

/// A text to be continued.
pub(crate) struct CompletionBody {
    pub(crate) prompt: PromptInput,
    pub(crate) common: Common,
}

/// A prompt, as text or as ids.
pub(crate) enum PromptInput {
    Text(String),
    Ids(Vec<TokenId>),
}

impl CompletionBody {
    /// Reads and checks a body.
    pub(crate) fn read(fields: &Fields<'_>, app: &App) -> Result<Self, ApiError> {
        if fields.flag("echo")? == Some(true) {
            return Err(ApiError::unsupported("echo", "repeating the prompt"));
        }
        let logprobs = fields.count("logprobs", 0)?;
        if let Some(top) = logprobs.filter(|&top| top > MAX_LOGPROBS) {
            let what = format_args!("{top} is out of range, expected 0 to {MAX_LOGPROBS}");
            return Err(ApiError::field("logprobs", what));
        }
        let common = Common::read(fields, app, logprobs, app.max_tokens.unwrap_or(MAX_TOKENS))?;
        Ok(Self { prompt: prompt(fields)?, common })
    }
}

/// A string, a list with one string, or a list of token ids.
fn prompt(fields: &Fields<'_>) -> Result<PromptInput, ApiError> {
    const EXPECTED: &str = "a string or a list of token ids";
    match fields.get("prompt") {
        None => Err(ApiError::field("prompt", "a text is needed")),
        Some(Value::String(text)) => Ok(PromptInput::Text(text.clone())),
        Some(Value::Array(items)) => match items.as_slice() {
            [Value::String(text)] => Ok(PromptInput::Text(text.clone())),
            [Value::String(_) | Value::Array(_), ..] => {
                Err(ApiError::unsupported("prompt", "more than one prompt"))
            }
            ids => ids
                .iter()
                .map(|id| {
                    let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
                    id.map(TokenId)
                })
                .collect::<Option<_>>()
                .map(PromptInput::Ids)
                .ok_or_else(|| ApiError::field("prompt", format_args!("expected {EXPECTED}"))),
        },
        Some(other) => Err(fields.wrong("prompt", EXPECTED, other)),
    }
}
