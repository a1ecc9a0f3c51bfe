//! The prompt: where it comes from, and its token ids.

use std::{
    fs,
    io::{IsTerminal, Read, stdin},
    path::Path,
};

use anyhow::{Context, Result};
use mlxcel_core::{
    TokenId,
    text::{ChatRequest, MAX_PROMPT_BYTES, SpecialTokens, StopMatcher, TemplateError, TextError, TextStream},
};
use serde_json::{Map, Value, json};

use crate::{args::RunArgs, error::Usage, load::Text};

/// The ids of a prompt, and what turns the answer to it into text.
pub(crate) struct Prompt {
    pub(crate) ids: Vec<TokenId>,
    pub(crate) stream: TextStream,
}

/// What a chat template is given besides the messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside<'a> {
    /// Tools that the model may call.
    pub(crate) tools: &'a [Value],
    /// Further variables.
    pub(crate) kwargs: Option<&'a Map<String, Value>>,
}

/// The prompt of `-p`, or all of stdin without the newline that shells put at its end; `None` if stdin is a terminal.
pub(crate) fn read(args: &RunArgs) -> Result<Option<String>> {
    let prompt = match &args.prompt {
        Some(prompt) => prompt.clone(),
        None if stdin().is_terminal() => return Ok(None),
        None => {
            let mut bytes = Vec::new();
            // One byte more shows that it is too long; the rest need not be read.
            let most = MAX_PROMPT_BYTES as u64 + 1;
            stdin().take(most).read_to_end(&mut bytes).context("cannot read the prompt from stdin")?;
            if bytes.len() as u64 == most {
                return Err(TextError::TooLong { limit: MAX_PROMPT_BYTES }.into());
            }
            let text = String::from_utf8(bytes).map_err(|error| {
                Usage::new(format!("the prompt on stdin is not UTF-8: {}", error.utf8_error()))
            })?;
            without_newline(&text).to_owned()
        }
    };
    if prompt.is_empty() || (!args.raw && prompt.trim().is_empty()) {
        return Err(Usage::new("the prompt is empty\nhint: give one with -p, or on stdin").into());
    }
    Ok(Some(prompt))
}

fn without_newline(text: &str) -> &str {
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text)
}

/// The tools of a file: a list of objects, as OpenAI's interface has them.
pub(crate) fn tools(file: &Path) -> Result<Vec<Value>> {
    let refused = |why: String| Usage::new(format!("--tools {}: {why}", file.display()));
    let bytes = fs::read(file).map_err(|error| refused(error.to_string()))?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Array(tools)) if tools.iter().all(Value::is_object) => Ok(tools),
        Ok(_) => Err(refused("expected a JSON list of objects".to_owned()).into()),
        Err(error) => Err(refused(format!("expected a JSON list of objects: {error}")).into()),
    }
}

/// A text to be continued: after the start token, if the model has one and the text does not begin with it.
pub(crate) fn raw(text: &Text, prompt: &str, stops: StopMatcher) -> Result<Prompt> {
    let bos = text.bos.as_deref().filter(|bos| !prompt.starts_with(bos)).unwrap_or_default();
    let ids = text.model.continued(&format!("{bos}{prompt}"))?;
    Ok(Prompt { ids, stream: text.model.raw_stream(stops, SpecialTokens::Skip) })
}

/// A conversation, up to the opening of the assistant's turn; `None` if the model has no chat template.
pub(crate) fn chat(
    text: &Text,
    messages: &[Value],
    beside: Beside<'_>,
    stops: StopMatcher,
) -> Result<Option<Prompt>> {
    if matches!(text.model.template, Err(TemplateError::Missing)) {
        return Ok(None);
    }
    let Beside { tools, kwargs } = beside;
    let request = ChatRequest { messages, tools, kwargs, add_generation_prompt: true };
    let ids = text.model.chat_prompt(request)?.ids;
    let stream = text.model.chat_stream(&ids, stops);
    Ok(Some(Prompt { ids, stream }))
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
    fn tools_are_a_list_of_objects() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tools.json");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            tools(&file).map_err(|error| error.to_string())
        };
        assert_eq!(read(r#"[{"type": "function"}]"#).unwrap(), [json!({"type": "function"})]);
        assert_eq!(read("[]").unwrap(), [] as [Value; 0]);
        for odd in ["{}", "[1]", "", "[", "null"] {
            let refusal = read(odd).unwrap_err();
            assert!(refusal.contains("tools.json: expected a JSON list of objects"), "{odd}: {refusal}");
        }
        assert!(tools(&folder.path().join("missing")).is_err());
    }
}
