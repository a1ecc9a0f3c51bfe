//! Text to token ids and back.

use std::{panic::catch_unwind, sync::OnceLock};

use tokenizers::Model as _;

use super::{
    controls::{Control, Controls, MARK, is_control},
    detokenizer::{Detokenizer, SpecialTokens},
    rendered::Rendered,
    sealed::Sealed,
    token_bytes::TokenBytes,
};
use crate::TokenId;

/// Ids above this are refused: no vocabulary comes near, and tables have a row per id.
const MAX_IDS: usize = 1 << 23;

/// Why a tokenizer cannot be used, or a text not be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// `tokenizer.json` is not a tokenizer.
    #[error("tokenizer.json: {detail}")]
    Parse {
        /// What was found, and where.
        detail: String,
    },
    /// Tokens cannot be turned into bytes one by one.
    #[error(
        "tokenizer.json: decoder `{found}` is not supported; expected ByteLevel, Metaspace, or a sequence of Replace, \
         ByteFallback, Fuse and Strip"
    )]
    Decoder {
        /// The decoder's type.
        found: String,
    },
    /// No tokens, or ids too high for a table.
    #[error("tokenizer.json: {found} ids, expected 1 to {MAX_IDS}")]
    Size {
        /// One more than the highest id.
        found: usize,
    },
    /// The text cannot be encoded.
    #[error("text cannot be encoded: {detail}")]
    Encode {
        /// What the tokenizer said.
        detail: String,
    },
}

impl TokenizerError {
    pub(super) fn encode(error: &(dyn std::error::Error + Send + Sync)) -> Self {
        Self::Encode { detail: error.to_string() }
    }
}

/// The tokenizer of a checkpoint. Encoding adds no special tokens, for the chat template writes them; only
/// [`Self::encode_document`] does.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    bytes: TokenBytes,
    /// `special[id]`: whether decoding may skip the id.
    special: Vec<bool>,
    controls: Controls,
    /// Whether a control token can arise from other letters by normalisation.
    normalised_controls: bool,
    /// Made when the first text needs it.
    sealed: OnceLock<Result<Sealed, TokenizerError>>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("ids", &self.ids()).finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Reads the contents of `tokenizer.json`. Truncation and padding that it asks for are left out: a prompt is
    /// never cut in silence.
    pub fn from_json(json: &[u8]) -> Result<Self, TokenizerError> {
        let refuse = |detail: String| TokenizerError::Parse { detail };
        // The library panics on a file that is cut off, and on some odd ones that are not.
        serde_json::from_slice::<serde::de::IgnoredAny>(json).map_err(|error| refuse(error.to_string()))?;
        let read = || tokenizers::Tokenizer::from_bytes(json);
        let mut inner = catch_unwind(read)
            .map_err(|_| refuse("no tokenizer that the library can read".to_owned()))?
            .map_err(|error| refuse(error.to_string()))?;
        inner.with_truncation(None).map_err(|error| refuse(error.to_string()))?.with_padding(None);

        let ids = inner.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        if ids == 0 || ids > MAX_IDS {
            return Err(TokenizerError::Size { found: ids });
        }
        let added = inner.get_added_vocabulary();
        let spelling = (0..ids as u32)
            .map(|id| added.simple_id_to_token(id).or_else(|| inner.get_model().id_to_token(id)));
        let decoder = serde_json::to_value(inner.get_decoder()).map_err(|error| refuse(error.to_string()))?;
        let bytes = TokenBytes::new(spelling, &decoder)?;

        let mut special = vec![false; ids];
        let mut controls = Vec::new();
        for (id, token) in inner.get_added_tokens_decoder() {
            special[id as usize] = token.special;
            if is_control(&token) {
                // The library numbers added tokens anew where the file's ids do not fit, and can meet an ordinary token: then
                // any text with it would be read as control.
                if let Some(other) = inner.get_model().id_to_token(id).filter(|other| *other != token.content)
                {
                    let detail =
                        format!("the added token {:?} and the token {other:?} share id {id}", token.content);
                    return Err(refuse(detail));
                }
                controls.push(Control { id: TokenId(id), token });
            }
        }
        let normalised_controls =
            inner.get_normalizer().is_some() && controls.iter().any(|control| control.token.normalized);
        let controls = Controls::new(controls)?;
        Ok(Self { inner, bytes, special, controls, normalised_controls, sealed: OnceLock::new() })
    }

    /// Ids of a raw prompt. Control tokens in it are control tokens: who may write raw prompts may write these.
    pub fn encode(&self, text: &str) -> Result<Vec<TokenId>, TokenizerError> {
        let encoding =
            self.inner.encode_fast(text, false).map_err(|error| TokenizerError::encode(&*error))?;
        Ok(encoding.get_ids().iter().copied().map(TokenId).collect())
    }

    /// Ids of a raw prompt with the tokens that the file's post-processor adds, usually bos in front; not where the
    /// prompt starts with it already.
    pub fn encode_document(&self, text: &str) -> Result<Vec<TokenId>, TokenizerError> {
        let plain = self.encode(text)?;
        let full = self.inner.encode_fast(text, true).map_err(|error| TokenizerError::encode(&*error))?;
        let full: Vec<TokenId> = full.get_ids().iter().copied().map(TokenId).collect();
        let starts_with_it =
            full.first().is_some_and(|&id| self.is_special(id) && plain.first() == Some(&id));
        Ok(if starts_with_it { plain } else { full })
    }

    /// Ids of a text that somebody else wrote: the texts of control tokens are encoded as the letters they are.
    pub fn encode_text(&self, text: &str) -> Result<Vec<TokenId>, TokenizerError> {
        let marked = self.controls.mark(text, |_| false);
        self.encode_marked(&marked, false)
    }

    /// Ids of a rendered chat template: its own control tokens are control tokens, those in the contents of messages
    /// are text. Where the contents hold none, the ids are those of [`Self::encode`].
    pub fn encode_template(&self, rendered: &Rendered) -> Result<Vec<TokenId>, TokenizerError> {
        self.encode_marked(rendered.marked(), true)
    }

    fn encode_marked(&self, marked: &str, template: bool) -> Result<Vec<TokenId>, TokenizerError> {
        if !self.normalised_controls && !marked.contains(MARK) {
            return self.encode(marked);
        }
        let sealed = self.sealed.get_or_init(|| Sealed::new(&self.inner, &self.controls));
        sealed.as_ref().map_err(Clone::clone)?.encode(marked, &self.controls, template)
    }

    /// Text of a whole list of ids: their bytes put together, U+FFFD for every longest part that is not UTF-8.
    pub fn decode(&self, ids: &[TokenId], special: SpecialTokens) -> String {
        let mut detokenizer = Detokenizer::new(special);
        let mut text: String = ids.iter().map(|&id| detokenizer.push(self, id)).collect();
        text.push_str(&detokenizer.flush());
        text
    }

    /// One more than the highest id that the tokenizer knows.
    pub fn ids(&self) -> usize {
        self.special.len()
    }

    /// Whether the tokenizer knows the id. Tables of logits are often padded with ids that it does not know.
    pub fn knows(&self, id: TokenId) -> bool {
        self.bytes(id).is_some()
    }

    /// The ids below `rows` that the tokenizer does not know, upwards: they must never be sampled.
    pub fn unknown_ids(&self, rows: usize) -> impl Iterator<Item = TokenId> {
        (0..rows as u32).map(TokenId).filter(|&id| !self.knows(id))
    }

    /// Bytes that the token stands for; `None` for an unknown id. They need not be whole characters.
    pub fn bytes(&self, id: TokenId) -> Option<&[u8]> {
        self.bytes.table.get(id.index())?.as_deref()
    }

    /// How the decoder treats the space at the start of a text.
    pub(super) fn lead(&self) -> super::token_bytes::Lead {
        self.bytes.lead
    }

    /// Id of a token by its spelling in the vocabulary.
    pub fn id(&self, token: &str) -> Option<TokenId> {
        self.inner.token_to_id(token).map(TokenId)
    }

    /// Spelling of a token in the vocabulary.
    pub fn token(&self, id: TokenId) -> Option<String> {
        self.inner.id_to_token(id.0)
    }

    /// Whether the token is special: no part of the text that people read.
    pub fn is_special(&self, id: TokenId) -> bool {
        self.special.get(id.index()).copied().unwrap_or(false)
    }

    /// All special ids, upwards.
    pub fn special_ids(&self) -> impl Iterator<Item = TokenId> {
        (0..self.ids() as u32).map(TokenId).filter(|&id| self.is_special(id))
    }

    /// Id of an added token, which is recognised in a prompt as a whole.
    pub fn added_id(&self, token: &str) -> Option<TokenId> {
        self.controls.iter().find(|control| control.token.content == token).map(|control| control.id)
    }

    /// Whether encoding recognises the token as a whole and text never becomes it.
    pub fn is_control(&self, id: TokenId) -> bool {
        self.controls.iter().any(|control| control.id == id)
    }

    pub(super) fn controls(&self) -> &Controls {
        &self.controls
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::text::testing::{build, byte_fallback_json, byte_level, byte_level_json, ids, tracked};

    #[test]
    fn facts_about_the_vocabulary() {
        let tokenizer = tracked();
        assert_eq!(tokenizer.ids(), 4096);
        assert_eq!(tokenizer.id("<|im_end|>"), Some(TokenId(4)));
        assert_eq!(tokenizer.token(TokenId(4)).as_deref(), Some("<|im_end|>"));
        assert_eq!(tokenizer.id("no such token"), None);
        assert_eq!(tokenizer.bytes(TokenId(4)), Some(&b"<|im_end|>"[..]));
        assert_eq!(tokenizer.bytes(tokenizer.id("\u{120}the").unwrap()), Some(&b" the"[..]));
        assert_eq!(tokenizer.special_ids().collect::<Vec<_>>(), (0..16).map(TokenId).collect::<Vec<_>>());
        assert!(tokenizer.is_special(TokenId(4)) && !tokenizer.is_special(TokenId(16)));
        assert!(tokenizer.is_control(TokenId(8)) && !tokenizer.is_control(TokenId(100)));
        assert_eq!(tokenizer.added_id("<think>"), Some(TokenId(8)));
    }

    #[test]
    fn padded_and_missing_ids_are_unknown() {
        let mut json = byte_level_json(&[], &[]);
        let vocab = json["model"]["vocab"].as_object_mut().unwrap();
        vocab.remove("a");
        vocab.insert("zz".into(), json!(259));
        let tokenizer = build(&json);
        assert_eq!(tokenizer.ids(), 260);
        assert!(!tokenizer.knows(TokenId(97)) && tokenizer.knows(TokenId(259)));
        let unknown: Vec<u32> = tokenizer.unknown_ids(262).map(|id| id.0).collect();
        assert_eq!(unknown, [97, 256, 257, 258, 260, 261]);
    }

    #[test]
    fn raw_prompts_may_write_control_tokens_and_texts_may_not() {
        let tokenizer = tracked();
        let text = "a<|im_end|><think>";
        assert_eq!(tokenizer.encode(text).unwrap()[1..], ids(&[4, 8]));
        let plain = tokenizer.encode_text(text).unwrap();
        assert!(!plain.iter().any(|&id| tokenizer.is_control(id)));
        assert_eq!(tokenizer.decode(&plain, SpecialTokens::Skip), text);
    }

    #[test]
    fn text_without_control_tokens_has_the_same_ids_either_way() {
        let tokenizer = tracked();
        let text = "It's 12345 naïve cafés, 日本 — <not> a |tag|.\n\n  def f(x): return x";
        assert_eq!(tokenizer.encode_text(text).unwrap(), tokenizer.encode(text).unwrap());
        assert!(tokenizer.sealed.get().is_none());
    }

    #[test]
    fn control_text_that_arises_by_normalisation_stays_text() {
        let mut json = byte_level_json(&[], &[("<|im_end|>", true)]);
        json["normalizer"] = json!({"type": "NFKC"});
        json["added_tokens"][0]["normalized"] = json!(true);
        let tokenizer = build(&json);
        let wide = "ok\u{FF1C}|im_end|\u{FF1E}";
        assert!(tokenizer.encode(wide).unwrap().contains(&TokenId(256)));
        assert!(!tokenizer.encode_text(wide).unwrap().contains(&TokenId(256)));
    }

    #[test]
    fn a_word_of_the_model_with_a_control_tokens_text_is_taken_apart() {
        let mut json = byte_level_json(&[b"<|x|>"], &[]);
        json["added_tokens"] = json!([crate::text::testing::added(256, "<|x|>", true)]);
        json["model"]["ignore_merges"] = json!(true);
        json["pre_tokenizer"]["pretokenizers"].as_array_mut().unwrap().remove(0);
        let tokenizer = build(&json);
        assert_eq!(tokenizer.encode("<|x|>").unwrap(), ids(&[256]));
        assert_eq!(tokenizer.encode_text("<|x|>").unwrap(), b"<|x|>".map(|byte| TokenId(u32::from(byte))));
    }

    #[test]
    fn the_programs_own_noncharacters_do_not_come_in() {
        let tokenizer = tracked();
        let forged = tokenizer.encode_text("\u{FDD1}0\u{FDD2}<|\u{FDD0}im_end|>").unwrap();
        assert!(!forged.iter().any(|&id| tokenizer.is_control(id)));
    }

    #[test]
    fn runs_of_spaces_are_no_control_tokens() {
        let tokenizer = byte_level(&[], &[("\n\n", false), ("▁▁", false), ("<|x|>", true)]);
        assert_eq!(tokenizer.encode_text("a\n\n▁▁<|x|>").unwrap()[..3], ids(&[97, 256, 257]));
    }

    #[test]
    fn truncation_and_padding_of_the_file_are_left_out() {
        let mut json = byte_level_json(&[], &[]);
        json["truncation"] =
            json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
        json["padding"] = json!({"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "x"});
        assert_eq!(build(&json).encode("abcd").unwrap().len(), 4);
    }

    #[test]
    fn special_tokens_are_added_to_documents_only() {
        let mut json = byte_fallback_json();
        json["post_processor"] = json!({"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}});
        let tokenizer = build(&json);
        assert!(!tokenizer.encode("a").unwrap().contains(&TokenId(1)));
        let document = tokenizer.encode_document("a").unwrap();
        assert_eq!(document[0], TokenId(1));
        assert_eq!(document[1..], tokenizer.encode("a").unwrap());
        assert_eq!(tokenizer.encode_document("<s>a").unwrap(), tokenizer.encode("<s>a").unwrap());
    }

    #[test]
    fn refusals() {
        let refuse = |json: &serde_json::Value| {
            Tokenizer::from_json(json.to_string().as_bytes()).unwrap_err().to_string()
        };
        let mut decoder = byte_level_json(&[], &[]);
        decoder["decoder"] = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
        let mut none = byte_level_json(&[], &[]);
        none["decoder"] = json!(null);
        let mut strip = byte_fallback_json();
        strip["decoder"] = json!({"type": "Strip", "content": "_", "start": 0, "stop": 2});
        let mut empty = byte_level_json(&[], &[]);
        empty["model"]["vocab"] = json!({});
        let mut huge = byte_level_json(&[], &[]);
        huge["model"]["vocab"]["zz"] = json!(u32::MAX);
        let messages = [
            Tokenizer::from_json(b"not json").unwrap_err().to_string(),
            Tokenizer::from_json(b"{}").unwrap_err().to_string(),
            refuse(&decoder),
            refuse(&none),
            refuse(&strip),
            refuse(&empty),
            refuse(&huge),
        ];
        insta::assert_snapshot!(messages.join("\n"));
    }

    /// Found by fuzzing: the library panics on a decoder that is cut off.
    /// Found by fuzzing: the library counts added tokens on from the size of a vocabulary that has gaps.
    #[test]
    fn a_control_token_has_an_id_of_its_own() {
        let mut json = byte_level_json(&[], &[("<|im_end|>", true)]);
        let vocab = json["model"]["vocab"].as_object_mut().unwrap();
        (0..20u8).for_each(|gap| drop(vocab.shift_remove(&char::from(b'a' + gap).to_string())));
        let refused = Tokenizer::from_json(json.to_string().as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("<|im_end|>") && refused.contains("share id 236"), "{refused}");
    }

    #[test]
    fn a_file_that_is_cut_off_is_refused_wherever_it_is() {
        let whole = byte_fallback_json().to_string().into_bytes();
        let decoder = whole.windows(9).position(|window| window == b"\"decoder\"").unwrap();
        for length in (0..whole.len()).filter(|length| length % 97 == 0 || length.abs_diff(decoder) < 400) {
            let refused = Tokenizer::from_json(&whole[..length]);
            assert!(matches!(refused, Err(TokenizerError::Parse { .. })), "{length}");
        }
        assert!(Tokenizer::from_json(&whole).is_ok());
    }
}
