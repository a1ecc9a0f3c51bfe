//! Prompts as text, and how a checkpoint reads them.

use std::{borrow::Cow, io, path::Path};

use mlxcel_core::{
    TokenId,
    text::{ChatRequest, ChatTemplate, EosSet, TextFiles, Tokenizer},
};
use serde::Deserialize;
use serde_json::json;

use crate::{At as _, Failure};

/// A prompt of a list in JSON lines: `{"id": …, "kind": "code" | "docs" | "chat", "prompt": …}`.
#[derive(Clone, Debug, Deserialize)]
pub struct Prompt {
    /// Its name.
    pub id: String,
    /// `chat` goes through the template, everything else is plain text to be continued.
    pub kind: String,
    /// The text.
    pub prompt: String,
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
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its end tokens.
    pub eos: Vec<TokenId>,
    template: Option<ChatTemplate>,
    /// What plain text starts with.
    bos: Option<TokenId>,
}

impl Text {
    /// The text files of a checkpoint's folder.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        let read = |name: &str| match std::fs::read(folder.join(name)) {
            Ok(bytes) => Ok(Some(Cow::Owned(bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let place = folder.display();
        let files = TextFiles::load(read).map_err(|error| Failure::Fixture(format!("{place}: {error}")))?;
        let tokenizer = Tokenizer::from_json(&files.tokenizer_json)
            .map_err(|error| Failure::Fixture(format!("{place}: {error}")))?;
        let eos = EosSet::load(&files, &tokenizer)
            .map_err(|error| Failure::Fixture(format!("{place}: {error}")))?
            .iter()
            .collect();
        let config: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("config.json"))?)
            .map_err(|error| Failure::Fixture(format!("{place}: {error}")))?;
        let bos = config["bos_token_id"].as_u64().map(|id| TokenId(id as u32));
        Ok(Self { template: ChatTemplate::load(&files).ok(), tokenizer, eos, bos })
    }

    /// The ids of a prompt: chat through the template, plain text after the begin token.
    pub fn ids(&self, prompt: &Prompt) -> Result<Vec<TokenId>, Failure> {
        self.encode(prompt).at(&prompt.id)
    }

    fn encode(&self, prompt: &Prompt) -> Result<Vec<TokenId>, Failure> {
        let refuse = |error: &dyn std::fmt::Display| Failure::Fixture(error.to_string());
        if prompt.kind != "chat" {
            let text = self.tokenizer.encode_text(&prompt.prompt).map_err(|error| refuse(&error))?;
            return Ok(self.bos.into_iter().chain(text).collect());
        }
        let Some(template) = &self.template else { return Err(refuse(&"there is no chat template")) };
        let messages = [json!({ "role": "user", "content": prompt.prompt })];
        let request =
            ChatRequest { messages: &messages, add_generation_prompt: true, ..ChatRequest::default() };
        let rendered = template.render(request, &self.tokenizer).map_err(|error| refuse(&error))?;
        self.tokenizer.encode_template(&rendered).map_err(|error| refuse(&error))
    }
}
