//! Prompts as text, and how a checkpoint reads them.

use std::{borrow::Cow, io, path::Path};

use mlxcel_core::{
    TokenId,
    text::{ChatRequest, TextFiles, TextModel},
};
use serde::Deserialize;
use serde_json::Value;

use crate::Failure;

/// A prompt of a list in JSON lines: `{"id": …, "kind": "code" | "docs", "prompt": …}` or
/// `{"id": …, "kind": "chat", "messages": [{"role": "user", "content": …}]}`.
#[derive(Clone, Debug, Deserialize)]
pub struct Prompt {
    /// Its name.
    pub id: String,
    /// What it is an example of.
    pub kind: String,
    /// What it says.
    #[serde(flatten)]
    pub body: Body,
}

/// What a prompt says.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// Plain text to be continued.
    Prompt(String),
    /// A conversation, for the chat template.
    Messages(Vec<Value>),
}

impl Prompt {
    /// The prompts of a list.
    pub fn read(lines: &str) -> Result<Vec<Self>, Failure> {
        let parse = |(at, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| Failure::Fixture(format!("prompt {at}: {error}")))
        };
        lines.lines().filter(|line| !line.trim().is_empty()).enumerate().map(parse).collect()
    }

    /// The list of this crate: ten prompts a kind.
    pub fn own() -> Result<Vec<Self>, Failure> {
        Self::read(include_str!("../prompts.jsonl"))
    }
}

/// The text side of a target.
pub struct Text {
    /// Its end tokens.
    pub eos: Vec<TokenId>,
    model: TextModel,
    /// What plain text starts with.
    bos: Option<TokenId>,
}

impl Text {
    /// The text files of a checkpoint's folder.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        let refuse =
            |error: &dyn std::fmt::Display| Failure::Fixture(format!("{}: {error}", folder.display()));
        let read = |name: &str| match std::fs::read(folder.join(name)) {
            Ok(bytes) => Ok(Some(Cow::Owned(bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let files = TextFiles::load(read).map_err(|error| refuse(&error))?;
        let model = TextModel::load(&files).map_err(|error| refuse(&error))?;
        let config: Value = serde_json::from_slice(files.config.as_deref().unwrap_or(b"{}"))
            .map_err(|error| refuse(&error))?;
        let bos = config["bos_token_id"].as_u64().map(|id| TokenId(id as u32));
        Ok(Self { eos: model.eos.iter().collect(), model, bos })
    }

    /// Whether the tokenizer knows an id.
    pub fn knows(&self, id: TokenId) -> bool {
        self.model.tokenizer.knows(id)
    }

    /// The ids of a prompt: chat through the template, plain text after the begin token.
    pub fn ids(&self, prompt: &Prompt) -> Result<Vec<TokenId>, Failure> {
        let refuse = |error: &dyn std::fmt::Display| Failure::Fixture(format!("{}: {error}", prompt.id));
        let text = match &prompt.body {
            Body::Prompt(text) => text,
            Body::Messages(messages) => {
                let request = ChatRequest { messages, add_generation_prompt: true, ..ChatRequest::default() };
                return Ok(self.model.chat_prompt(request).map_err(|error| refuse(&error))?.ids);
            }
        };
        let ids = self.model.tokenizer.encode_text(text).map_err(|error| refuse(&error))?;
        Ok(self.bos.into_iter().chain(ids).collect())
    }
}
