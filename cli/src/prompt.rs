//! The prompt: where it comes from, and its token ids.

use std::io::{IsTerminal, Read, stdin};

use anyhow::{Context, Result};
use mlxcel_core::{TokenId, text::ChatRequest};
use serde_json::{Value, json};

use crate::{error::Usage, load::Text};

/// The prompt of `-p`, or all of stdin; `None` if that is a terminal. A newline at the end of stdin, which shells put
/// there, is no part of a message; `raw` text is taken as it is.
pub(crate) fn read(flag: Option<String>, raw: bool) -> Result<Option<String>> {
    let prompt = match flag {
        Some(prompt) => prompt,
        None if stdin().is_terminal() => return Ok(None),
        None => {
            let mut bytes = Vec::new();
            stdin().read_to_end(&mut bytes).context("cannot read the prompt from stdin")?;
            let mut text = String::from_utf8(bytes)
                .map_err(|error| error.utf8_error())
                .context("the prompt on stdin is not UTF-8")?;
            if !raw && text.ends_with('\n') {
                text.pop();
                text.truncate(text.strip_suffix('\r').map_or(text.len(), str::len));
            }
            text
        }
    };
    if prompt.is_empty() || (!raw && prompt.trim().is_empty()) {
        return Err(Usage("the prompt is empty\nhint: give one with -p, or on stdin").into());
    }
    Ok(Some(prompt))
}

/// Ids of a text to be continued: after the start token, if the model has one and the text does not begin with it.
pub(crate) fn raw(text: &Text, prompt: &str) -> Result<Vec<TokenId>> {
    let bos = text.bos.as_deref().filter(|bos| !prompt.starts_with(bos)).unwrap_or_default();
    Ok(text.tokenizer.encode(&format!("{bos}{prompt}"))?)
}

/// Ids of a conversation, up to the opening of the assistant's turn; `None` if the model has no chat template.
pub(crate) fn chat(text: &Text, messages: &[Value]) -> Result<Option<Vec<TokenId>>> {
    let Some(template) = &text.template else { return Ok(None) };
    let request = ChatRequest { messages, add_generation_prompt: true, ..ChatRequest::default() };
    let rendered = template.render(request, &text.tokenizer)?;
    Ok(Some(text.tokenizer.encode_template(&rendered)?))
}

/// A message of a conversation.
pub(crate) fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}
