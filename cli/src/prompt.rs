//! The prompt: where it comes from, and its token ids.

use std::io::{IsTerminal, Read, stdin};

use anyhow::{Context, Result};
use mlxcel_core::{
    TokenId,
    text::{ChatRequest, SpecialTokens, StopMatcher, TemplateError, TextStream},
};
use serde_json::{Value, json};

use crate::{error::Usage, load::Text};

/// The ids of a prompt, and what turns the answer to it into text.
pub(crate) struct Prompt {
    pub(crate) ids: Vec<TokenId>,
    pub(crate) stream: TextStream,
}

/// The prompt of `-p`, or all of stdin; `None` if that is a terminal. A newline at the end of stdin, which shells put
/// there, is no part of a message; `raw` text is taken as it is.
pub(crate) fn read(flag: Option<String>, raw: bool) -> Result<Option<String>> {
    let prompt = match flag {
        Some(prompt) => prompt,
        None if stdin().is_terminal() => return Ok(None),
        None => {
            let mut bytes = Vec::new();
            stdin().read_to_end(&mut bytes).context("cannot read the prompt from stdin")?;
            let text = String::from_utf8(bytes)
                .map_err(|error| error.utf8_error())
                .context("the prompt on stdin is not UTF-8")?;
            if raw { text } else { without_newline(&text).to_owned() }
        }
    };
    if prompt.is_empty() || (!raw && prompt.trim().is_empty()) {
        return Err(Usage("the prompt is empty\nhint: give one with -p, or on stdin").into());
    }
    Ok(Some(prompt))
}

fn without_newline(text: &str) -> &str {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text)
}

/// A text to be continued: after the start token, if the model has one and the text does not begin with it.
pub(crate) fn raw(text: &Text, prompt: &str) -> Result<Prompt> {
    let bos = text.bos.as_deref().filter(|bos| !prompt.starts_with(bos)).unwrap_or_default();
    let ids = text.model.tokenizer.encode(&format!("{bos}{prompt}"))?;
    Ok(Prompt { ids, stream: text.model.raw_stream(no_stops()?, SpecialTokens::Skip) })
}

/// A conversation, up to the opening of the assistant's turn; `None` if the model has no chat template.
pub(crate) fn chat(text: &Text, messages: &[Value]) -> Result<Option<Prompt>> {
    if matches!(text.model.template, Err(TemplateError::Missing)) {
        return Ok(None);
    }
    let request = ChatRequest { messages, add_generation_prompt: true, ..ChatRequest::default() };
    let ids = text.model.chat_prompt(request)?.ids;
    let stream = text.model.chat_stream(&ids, no_stops()?);
    Ok(Some(Prompt { ids, stream }))
}

fn no_stops() -> Result<StopMatcher> {
    Ok(StopMatcher::new::<&str>(&[])?)
}

/// A message of a conversation.
pub(crate) fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_newline_is_the_shells() {
        for (text, expected) in [("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a"), ("\n", "")] {
            assert_eq!(without_newline(text), expected);
        }
    }

    #[test]
    fn an_empty_prompt_is_refused() {
        for (prompt, raw, fine) in
            [("", false, false), (" \n\t", false, false), ("", true, false), (" ", true, true)]
        {
            assert_eq!(read(Some(prompt.to_owned()), raw).is_ok(), fine, "{prompt:?} {raw}");
        }
    }
}
