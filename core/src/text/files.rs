//! The files that hold everything about text: bytes from a folder or from the program itself.

use std::{borrow::Cow, io};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Contents of the text files of a checkpoint. Where they come from does not matter.
#[derive(Clone, Debug, Default)]
pub struct TextFiles<'a> {
    /// `tokenizer.json`: vocabulary, merges, added tokens.
    pub tokenizer_json: Cow<'a, [u8]>,
    /// `tokenizer_config.json`: names of bos and eos, often the chat template.
    pub tokenizer_config: Option<Cow<'a, [u8]>>,
    /// `chat_template.jinja`: the chat template as a file of its own.
    pub chat_template_jinja: Option<Cow<'a, [u8]>>,
    /// `chat_template.json`: `{"chat_template": ...}`.
    pub chat_template_json: Option<Cow<'a, [u8]>>,
    /// `generation_config.json`: the end tokens.
    pub generation_config: Option<Cow<'a, [u8]>>,
    /// `config.json`: the end tokens where `generation_config.json` names none.
    pub config: Option<Cow<'a, [u8]>>,
}

/// A text file that is missing, cannot be read, or is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// Without this file there is no text at all.
    #[error("{file} is missing; hint: convert the checkpoint with a fast tokenizer, which writes {file}")]
    Missing {
        /// Name of the file.
        file: &'static str,
    },
    /// The file exists and cannot be read.
    #[error("{file} cannot be read")]
    Read {
        /// Name of the file.
        file: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not JSON of the expected shape.
    #[error("{file} is not valid")]
    Json {
        /// Name of the file.
        file: &'static str,
        /// Field, line and column.
        source: serde_json::Error,
    },
    /// The file is JSON and no object.
    #[error("{file} holds {found}; expected a JSON object")]
    NotAnObject {
        /// Name of the file.
        file: &'static str,
        /// What kind of value it holds.
        found: &'static str,
    },
}

impl<'a> TextFiles<'a> {
    /// Collects the files with `read`, which gives the bytes of a file by name, or `None` where it does not exist.
    pub fn load(mut read: impl FnMut(&str) -> io::Result<Option<Cow<'a, [u8]>>>) -> Result<Self, FilesError> {
        let mut get = |file: &'static str| read(file).map_err(|source| FilesError::Read { file, source });
        Ok(Self {
            tokenizer_json: get("tokenizer.json")?.ok_or(FilesError::Missing { file: "tokenizer.json" })?,
            tokenizer_config: get("tokenizer_config.json")?,
            chat_template_jinja: get("chat_template.jinja")?,
            chat_template_json: get("chat_template.json")?,
            generation_config: get("generation_config.json")?,
            config: get("config.json")?,
        })
    }

    /// The text of the token that starts a sequence, if `tokenizer_config.json` names one.
    pub fn bos_token(&self) -> Result<Option<String>, FilesError> {
        Ok(self.tokenizer_config()?.bos_token.map(|token| token.text().to_owned()))
    }

    /// The part of `tokenizer_config.json` that matters here; empty where the file is missing.
    pub(super) fn tokenizer_config(&self) -> Result<TokenizerConfig, FilesError> {
        parse("tokenizer_config.json", self.tokenizer_config.as_deref())
    }
}

/// Parses an optional JSON file; a missing one is the default.
pub(super) fn parse<T: DeserializeOwned + Default>(
    file: &'static str,
    bytes: Option<&[u8]>,
) -> Result<T, FilesError> {
    bytes.map_or_else(
        || Ok(T::default()),
        |bytes| serde_json::from_slice(bytes).map_err(|source| FilesError::Json { file, source }),
    )
}

/// Parses an optional file that holds one JSON object; a missing one is empty.
pub(super) fn parse_object(
    file: &'static str,
    bytes: Option<&[u8]>,
) -> Result<Map<String, Value>, FilesError> {
    let found = match parse(file, bytes)? {
        Value::Object(fields) => return Ok(fields),
        // A file that is not there.
        Value::Null if bytes.is_none() => return Ok(Map::new()),
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
    };
    Err(FilesError::NotAnObject { file, found })
}

/// Fields of `tokenizer_config.json`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct TokenizerConfig {
    pub(super) bos_token: Option<TokenText>,
    pub(super) eos_token: Option<TokenText>,
    pub(super) pad_token: Option<TokenText>,
    pub(super) unk_token: Option<TokenText>,
    pub(super) chat_template: Option<TemplateField>,
}

/// A special token: its text, or an object with the text as `content`.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a token's text or an object with `content`")]
pub(super) enum TokenText {
    Plain(String),
    Object { content: String },
}

impl TokenText {
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Object { content: text } => text,
        }
    }
}

/// One chat template, or several by name.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a template's text or a list of {name, template}")]
pub(super) enum TemplateField {
    One(String),
    Named(Vec<NamedTemplate>),
}

/// An entry of a list of templates.
#[derive(Debug, Deserialize)]
pub(super) struct NamedTemplate {
    pub(super) name: String,
    pub(super) template: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tokenizer_must_exist() {
        let files = TextFiles::load(|name| Ok((name == "tokenizer.json").then(|| b"{}"[..].into()))).unwrap();
        assert_eq!(&*files.tokenizer_json, b"{}");
        assert!(files.config.is_none() && files.chat_template_jinja.is_none());
    }

    #[test]
    fn refusals() {
        let missing = TextFiles::load(|_| Ok(None)).unwrap_err();
        let denied = TextFiles::load(|_| Err(io::ErrorKind::PermissionDenied.into())).unwrap_err();
        let json = TextFiles { tokenizer_config: Some(b"[1"[..].into()), ..TextFiles::default() };
        let json = json.tokenizer_config().unwrap_err();
        let messages = [missing, denied, json].map(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(" <- {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        });
        insta::assert_snapshot!(messages.join("\n"));
    }
}
