//! The prompts: a file's, or the program's own.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use mlxcel_core::{
    TokenId,
    text::{ChatRequest, StopMatcher, TemplateError},
};
use serde_json::Value;

use crate::{load::Text, prompt};

/// Code, documents and questions.
const OWN: [(&str, Body<&str>); 12] = [
    ("code-fibonacci", Body::Text("def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n")),
    (
        "code-class",
        Body::Text(
            "class Stack:\n    \"\"\"A last-in, first-out collection.\"\"\"\n\n    def __init__(self):\n",
        ),
    ),
    ("code-imports", Body::Text("import os\nimport sys\n\n\ndef main(argv):\n")),
    (
        "code-test",
        Body::Text("import unittest\n\n\nclass TestParser(unittest.TestCase):\n    def test_empty(self):\n"),
    ),
    (
        "docs-manual",
        Body::Text(
            "NAME\n       cp - copy files and directories\n\nSYNOPSIS\n       cp [OPTION]... SOURCE DEST\n\nDESCRIPTION\n",
        ),
    ),
    ("docs-readme", Body::Text("# Installation\n\nTo install the package, run the following command:\n\n")),
    (
        "docs-options",
        Body::Text(
            "OPTIONS\n       -v, --verbose\n              Print more messages.\n\n       -q, --quiet\n",
        ),
    ),
    ("docs-list", Body::Text("The following steps are needed:\n\n1. Open the file.\n2. ")),
    ("chat-list", Body::Chat("What is a list?")),
    ("chat-compiler", Body::Chat("What does a compiler do?")),
    ("chat-copy", Body::Chat("How do I copy a file?")),
    ("chat-difference", Body::Chat("What is the difference between a list and a tuple?")),
];

/// A prompt as it was given.
pub(super) struct Given {
    name: String,
    body: Body<String>,
}

/// What a prompt says.
enum Body<T> {
    /// Plain text.
    Text(T),
    /// A user's message.
    Chat(T),
    /// A conversation.
    Messages(Vec<Value>),
}

/// A prompt's ids.
pub(super) struct Prompt {
    pub(super) name: String,
    pub(super) ids: Vec<TokenId>,
}

/// The prompts of a file, or the program's own.
pub(super) fn read(file: Option<&Path>) -> Result<Vec<Given>> {
    let Some(file) = file else {
        let own = OWN.into_iter().map(|(name, body)| Given {
            name: name.to_owned(),
            body: match body {
                Body::Text(text) => Body::Text(text.to_owned()),
                Body::Chat(text) => Body::Chat(text.to_owned()),
                Body::Messages(messages) => Body::Messages(messages),
            },
        });
        return Ok(own.collect());
    };
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read prompts from {}", file.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let given = lines
        .map(|(at, line)| given(at + 1, line).with_context(|| format!("{}, line {}", file.display(), at + 1)))
        .collect::<Result<Vec<_>>>()?;
    ensure!(!given.is_empty(), "{} holds no prompt", file.display());
    Ok(given)
}

/// A line: a JSON object, or else text.
fn given(number: usize, line: &str) -> Result<Given> {
    let name = || format!("line {number}");
    if !line.trim_start().starts_with('{') {
        return Ok(Given { name: name(), body: Body::Text(line.to_owned()) });
    }
    let object: Value = serde_json::from_str(line).context("not a JSON object")?;
    let name = object.get("id").and_then(Value::as_str).map_or_else(name, str::to_owned);
    let body = match (object.get("prompt"), object.get("messages")) {
        (Some(Value::String(text)), None) => Body::Text(text.clone()),
        (None, Some(Value::Array(messages))) => Body::Messages(messages.clone()),
        _ => bail!("expected either \"prompt\", a text, or \"messages\", a list"),
    };
    Ok(Given { name, body })
}

/// The ids of all prompts; plain text is a user's message if `chat`, where the model knows conversations.
pub(super) fn ids(given: Vec<Given>, text: &Text, chat: bool) -> Result<Vec<Prompt>> {
    let of = |Given { name, body }: Given| {
        let ids = match body {
            Body::Text(content) if !chat => raw(text, &content)?,
            Body::Text(content) | Body::Chat(content) => {
                match conversation(text, &[prompt::message("user", &content)])? {
                    Some(ids) => ids,
                    None => raw(text, &content)?,
                }
            }
            Body::Messages(messages) => conversation(text, &messages)?
                .with_context(|| format!("{name}: this model has no chat template for \"messages\""))?,
        };
        Ok(Prompt { name, ids })
    };
    given.into_iter().map(of).collect()
}

/// Text to be continued, after the start token.
fn raw(text: &Text, content: &str) -> Result<Vec<TokenId>> {
    Ok(prompt::raw(text, content, StopMatcher::new::<&str>(&[])?)?.ids)
}

/// A conversation in the model's chat template; `None` without one.
fn conversation(text: &Text, messages: &[Value]) -> Result<Option<Vec<TokenId>>> {
    if matches!(text.model.template, Err(TemplateError::Missing)) {
        return Ok(None);
    }
    let request = ChatRequest { messages, add_generation_prompt: true, ..ChatRequest::default() };
    Ok(Some(text.model.chat_prompt(request)?.ids))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn of(content: &str) -> Result<Vec<Given>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        read(Some(file.path()))
    }

    #[test]
    fn lines_are_text_or_json() {
        let given =
            of("Hello\n\n{\"id\": \"a\", \"prompt\": \"b\\nc\"}\n{\"messages\": [{\"role\": \"user\"}]}\n")
                .unwrap();
        let names: Vec<_> = given.iter().map(|given| given.name.as_str()).collect();
        assert_eq!(names, ["line 1", "a", "line 4"]);
        assert!(matches!(&given[0].body, Body::Text(text) if text == "Hello"));
        assert!(matches!(&given[1].body, Body::Text(text) if text == "b\nc"));
        assert!(matches!(&given[2].body, Body::Messages(messages) if messages.len() == 1));
    }

    #[test]
    fn odd_lines_are_refused() {
        for odd in ["", "\n", "{", "{}", "{\"prompt\": 1}", "{\"prompt\": \"a\", \"messages\": []}"] {
            assert!(of(odd).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn the_programs_own_are_twelve() {
        assert_eq!(read(None).unwrap().len(), 12);
    }
}
