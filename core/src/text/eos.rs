//! The tokens that end an answer.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    files::{FilesError, TextFiles, parse_object},
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
        let generation = parse_object("generation_config.json", files.generation_config.as_deref())?;
        let config = parse_object("config.json", files.config.as_deref())?;
        let text_config = config.get("text_config").and_then(|text| text.get("eos_token_id"));
        let places = [
            ("generation_config.json", "eos_token_id", generation.get("eos_token_id")),
            ("config.json", "eos_token_id", config.get("eos_token_id")),
            ("config.json", "text_config.eos_token_id", text_config),
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

    /// Makes `end` an end token in place of `other`.
    pub(super) fn swap(&mut self, other: TokenId, end: TokenId) {
        self.0.remove(&other);
        self.0.insert(end);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::testing::{ids, tracked, tracked_files};

    fn load(
        generation: Option<&'static str>,
        config: Option<&'static str>,
        tokenizer: Option<&'static str>,
    ) -> Result<Vec<TokenId>, EosError> {
        let bytes = |text: Option<&'static str>| text.map(|text| text.as_bytes().into());
        let files = TextFiles {
            generation_config: bytes(generation),
            config: bytes(config),
            tokenizer_config: bytes(tokenizer),
            ..tracked_files()
        };
        EosSet::load(&files, &tracked()).map(|set| set.iter().collect())
    }

    #[test]
    fn a_set_from_all_places() {
        let set = EosSet::load(&tracked_files(), &tracked()).unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), ids(&[2, 4]));
        assert!(set.contains(TokenId(4)) && !set.contains(TokenId(3)));
    }

    #[test]
    fn generation_config_overrides_config_and_the_tokenizer_adds() {
        let both = load(Some(r#"{"eos_token_id": 9}"#), Some(r#"{"eos_token_id": [7]}"#), None);
        assert_eq!(both.unwrap(), ids(&[9]));
        let null = load(Some(r#"{"eos_token_id": null}"#), Some(r#"{"eos_token_id": [7, 6]}"#), None);
        assert_eq!(null.unwrap(), ids(&[6, 7]));
        let nested = load(None, Some(r#"{"text_config": {"eos_token_id": 5}}"#), None);
        assert_eq!(nested.unwrap(), ids(&[5]));
        let own =
            load(Some(r#"{"eos_token_id": 2}"#), None, Some(r#"{"eos_token": {"content": "<|im_end|>"}}"#));
        assert_eq!(own.unwrap(), ids(&[2, 4]));
        let unknown = load(Some(r#"{"eos_token_id": 2}"#), None, Some(r#"{"eos_token": "</nowhere>"}"#));
        assert_eq!(unknown.unwrap(), ids(&[2]));
    }

    #[test]
    fn refusals() {
        let message = |result: Result<Vec<TokenId>, EosError>| {
            let error = result.unwrap_err();
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        };
        let messages = [
            message(load(None, None, None)),
            message(load(Some(r#"{"eos_token_id": "</s>"}"#), None, None)),
            message(load(None, Some(r#"{"eos_token_id": [1, -1]}"#), None)),
            message(load(None, Some(r#"{"text_config": {"eos_token_id": 1.5}}"#), None)),
            message(load(Some("{"), None, None)),
            message(load(Some("[]"), None, None)),
            message(load(None, Some("null"), None)),
            message(load(None, None, Some(r#"{"eos_token": 3}"#))),
        ];
        insta::assert_snapshot!(messages.join("\n"));
    }
}
