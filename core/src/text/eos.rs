//! The tokens that end an answer.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    files::{FilesError, TextFiles, parse},
    tokenizer::Tokenizer,
};
use crate::TokenId;

/// Why the end tokens of a checkpoint cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum EosError {
    /// A file cannot be parsed.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The field holds something that is no token id.
    #[error("{file}: `{field}` holds {found}; expected a token id or a list of token ids")]
    NotAnId {
        /// Name of the file.
        file: &'static str,
        /// The field.
        field: &'static str,
        /// What is there instead.
        found: String,
    },
    /// Nothing names an end token: no answer would ever end.
    #[error(
        "no end token: neither generation_config.json nor config.json has `eos_token_id`, and tokenizer_config.json has \
         no `eos_token` of the vocabulary"
    )]
    None,
}

/// The set of end tokens. It is never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EosSet(BTreeSet<TokenId>);

impl EosSet {
    /// `eos_token_id` of `generation_config.json`, else of `config.json`, else of its `text_config`; and the
    /// tokenizer's own `eos_token` in any case.
    pub fn load(files: &TextFiles<'_>, tokenizer: &Tokenizer) -> Result<Self, EosError> {
        let generation: Value = parse("generation_config.json", files.generation_config.as_deref())?;
        let config: Value = parse("config.json", files.config.as_deref())?;
        let places = [
            ("generation_config.json", "eos_token_id", generation.get("eos_token_id")),
            ("config.json", "eos_token_id", config.get("eos_token_id")),
            ("config.json", "text_config.eos_token_id", config.pointer("/text_config/eos_token_id")),
        ];
        let named = places.into_iter().find_map(|(file, field, value)| Some((file, field, present(value?)?)));
        let mut ids = match named {
            Some((file, field, value)) => token_ids(file, field, value)?,
            None => BTreeSet::new(),
        };
        let own = files.tokenizer_config()?.eos_token;
        ids.extend(own.and_then(|token| tokenizer.id(token.text())));
        if ids.is_empty() { Err(EosError::None) } else { Ok(Self(ids)) }
    }

    /// Whether the token ends an answer.
    pub fn contains(&self, id: TokenId) -> bool {
        self.0.contains(&id)
    }

    /// The end tokens, upwards.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> {
        self.0.iter().copied()
    }
}

/// `null` and an empty list name nothing.
fn present(value: &Value) -> Option<&Value> {
    let nothing = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if nothing { None } else { Some(value) }
}

fn token_ids(file: &'static str, field: &'static str, value: &Value) -> Result<BTreeSet<TokenId>, EosError> {
    let id = |value: &Value| {
        value.as_u64().and_then(|id| u32::try_from(id).ok()).map(TokenId).ok_or_else(|| EosError::NotAnId {
            file,
            field,
            found: value.to_string(),
        })
    };
    match value {
        Value::Array(values) => values.iter().map(id).collect(),
        one => Ok(BTreeSet::from([id(one)?])),
    }
}
