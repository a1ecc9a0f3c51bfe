//! Text to token ids and back.

use std::sync::OnceLock;

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

/// The tokenizer of a checkpoint. Encoding adds no special tokens: the chat template writes them.
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
        let mut inner = tokenizers::Tokenizer::from_bytes(json).map_err(|error| refuse(error.to_string()))?;
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
