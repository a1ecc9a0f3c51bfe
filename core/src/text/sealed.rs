//! A tokenizer that reads control tokens as text, except where a private stand-in says which one is meant.

use std::collections::HashMap;

use tokenizers::{AddedToken, Model as _};

use super::{
    controls::{Controls, MARK, SEAL_CLOSE, SEAL_OPEN, is_control},
    tokenizer::TokenizerError,
};
use crate::TokenId;

/// The tokenizer with every control token renamed to its stand-in. All else is as in the original, so that splitting
/// and merging around control tokens give the ids of the original.
pub(super) struct Sealed {
    inner: tokenizers::Tokenizer,
    /// Ids that the renamed tokens have got, and the ids they stand for.
    original: HashMap<u32, TokenId>,
}

impl Sealed {
    pub(super) fn new(full: &tokenizers::Tokenizer, controls: &Controls) -> Result<Self, TokenizerError> {
        let refuse = |detail: String| TokenizerError::Parse { detail };
        let mut inner = tokenizers::Tokenizer::new(full.get_model().clone());
        inner.with_normalizer(full.get_normalizer().cloned()).map_err(|error| refuse(error.to_string()))?;
        inner.with_pre_tokenizer(full.get_pre_tokenizer().cloned());

        let mut renamed: Vec<(AddedToken, TokenId)> = full
            .get_added_tokens_decoder()
            .into_iter()
            .filter(|(_, token)| !is_control(token))
            .map(|(id, token)| (token, TokenId(id)))
            .collect();
        renamed.extend(controls.iter().enumerate().map(|(index, control)| {
            let AddedToken { lstrip, rstrip, special, .. } = control.token;
            let content = seal(index);
            (
                AddedToken { content, lstrip, rstrip, special, single_word: false, normalized: false },
                control.id,
            )
        }));
        inner
            .add_tokens(renamed.iter().map(|(token, _)| token.clone()))
            .map_err(|error| refuse(error.to_string()))?;

        let mut original = HashMap::with_capacity(renamed.len());
        for (token, id) in renamed {
            let Some(new) = inner.token_to_id(&token.content) else { continue };
            if new != id.0 && full.get_model().id_to_token(new).is_some() {
                return Err(refuse(format!("the vocabulary has gaps: id {new} is taken and free at once")));
            }
            original.insert(new, id);
        }
        Ok(Self { inner, original })
    }

    /// Ids of a marked text. Whole control tokens are the template's where `template` is set, and text otherwise.
    pub(super) fn encode(
        &self,
        marked: &str,
        controls: &Controls,
        template: bool,
    ) -> Result<Vec<TokenId>, TokenizerError> {
        let mut sealed = String::with_capacity(marked.len());
        let mut from = 0;
        while template && let Some((index, range)) = controls.find(marked, from) {
            sealed.push_str(&marked[from..range.start]);
            sealed.push_str(&seal(index));
            from = range.end;
        }
        sealed.push_str(&marked[from..]);
        let mut ids = Vec::new();
        self.encode_into(&sealed.replace(MARK, ""), controls, &mut ids)?;
        Ok(ids)
    }

    /// A model can hold a control token's text as one of its own words; such a word is taken apart.
    fn encode_into(
        &self,
        text: &str,
        controls: &Controls,
        ids: &mut Vec<TokenId>,
    ) -> Result<(), TokenizerError> {
        let encoding =
            self.inner.encode_fast(text, false).map_err(|error| TokenizerError::encode(&*error))?;
        for &id in encoding.get_ids() {
            if let Some(&original) = self.original.get(&id) {
                ids.push(original);
            } else if let Some(control) = controls.iter().find(|control| control.id.0 == id) {
                let word = control.token.content.as_str();
                let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
                self.encode_into(first, controls, ids)?;
                self.encode_into(rest, controls, ids)?;
            } else {
                ids.push(TokenId(id));
            }
        }
        Ok(())
    }
}

/// The stand-in of the control token with this index.
fn seal(index: usize) -> String {
    format!("{SEAL_OPEN}{index}{SEAL_CLOSE}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::text::{
        Tokenizer,
        testing::{build, byte_fallback_json, byte_level_json, tracked},
    };

    /// A tokenizer, the same sealed, and its control tokens.
    struct Pair {
        full: Tokenizer,
        sealed: Sealed,
        controls: Vec<String>,
    }

    impl Pair {
        fn of(full: Tokenizer, json: &[u8]) -> Self {
            let library = tokenizers::Tokenizer::from_bytes(json).unwrap();
            let sealed = Sealed::new(&library, full.controls()).unwrap();
            let controls = full.controls().iter().map(|control| control.token.content.clone()).collect();
            Self { full, sealed, controls }
        }

        fn made(json: &Value) -> Self {
            Self::of(build(json), json.to_string().as_bytes())
        }

        fn check(&self, parts: &[(prop::sample::Index, String)]) {
            let text: String = parts
                .iter()
                .flat_map(|(index, text)| [index.get(&self.controls).as_str(), text.as_str()])
                .collect();
            let ids = self.sealed.encode(&text, self.full.controls(), true).unwrap();
            assert_eq!(ids, self.full.encode(&text).unwrap(), "{text:?}");
        }
    }

    fn pairs() -> &'static [Pair] {
        static PAIRS: std::sync::LazyLock<Vec<Pair>> = std::sync::LazyLock::new(|| {
            let tracked_json = crate::text::testing::tracked_files().tokenizer_json;
            let mut metaspace = byte_fallback_json();
            metaspace["normalizer"] = Value::Null;
            metaspace["pre_tokenizer"] = serde_json::json!(
                {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false});
            let mut strips = byte_level_json(&[b"  "], &[("<|a|>", true), ("<b>", false), ("\n\n", false)]);
            strips["added_tokens"][0]["lstrip"] = true.into();
            strips["added_tokens"][1]["rstrip"] = true.into();
            vec![
                Pair::of(tracked(), &tracked_json),
                Pair::made(&strips),
                Pair::made(&byte_fallback_json()),
                Pair::made(&metaspace),
            ]
        });
        &PAIRS
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// A template that writes all control tokens itself has the ids of the original tokenizer.
        #[test]
        fn the_templates_own_tokens_have_their_ids(
            parts in prop::collection::vec((any::<prop::sample::Index>(), "[ab e\u{301}\n 日<|_>0-9]{0,12}"), 0..5)
        ) {
            for pair in pairs() {
                pair.check(&parts);
            }
        }
    }
}
