//! Token ids to text, piece by piece, never a broken character.

use super::{token_bytes::Lead, tokenizer::Tokenizer};
use crate::TokenId;

/// What happens to special tokens on the way to text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpecialTokens {
    /// They leave no text.
    #[default]
    Skip,
    /// Their spelling is text.
    Keep,
}

/// Incremental detokenizer: a character is given out with the token that completes it. All pieces and the flush put
/// together are the lossy UTF-8 of all bytes put together, as [`Tokenizer::decode`] gives them.
///
/// At most three bytes wait, so that each token costs as much as it has bytes.
#[derive(Clone, Debug)]
pub struct Detokenizer {
    special: SpecialTokens,
    /// Beginning of a character that is not complete yet.
    pending: Vec<u8>,
    /// Whether no token has given text yet.
    first: bool,
}

impl Detokenizer {
    /// A detokenizer at the start of a text.
    pub fn new(special: SpecialTokens) -> Self {
        Self { special, pending: Vec::new(), first: true }
    }

    /// The text that is complete with token `id`. An id that the tokenizer does not know leaves no text.
    #[must_use]
    pub fn push(&mut self, tokenizer: &Tokenizer, id: TokenId) -> String {
        if self.special == SpecialTokens::Skip && tokenizer.is_special(id) {
            return String::new();
        }
        let Some(mut bytes) = tokenizer.bytes(id) else { return String::new() };
        if self.first {
            bytes = self.without_lead(tokenizer.lead(), bytes);
        }
        self.pending.extend_from_slice(bytes);
        self.take_complete()
    }

    /// Ends the text: U+FFFD for a character that was never completed.
    #[must_use]
    pub fn flush(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }

    fn without_lead<'b>(&mut self, lead: Lead, bytes: &'b [u8]) -> &'b [u8] {
        match lead {
            Lead::Keep => self.first = false,
            // Tokens without bytes do not count as the start of the text.
            Lead::OneSpace => {
                self.first = bytes.is_empty();
                return bytes.strip_prefix(b" ").unwrap_or(bytes);
            }
            Lead::FirstToken => {
                self.first = false;
                let spaces = bytes.iter().take_while(|&&byte| byte == b' ').count();
                return &bytes[spaces..];
            }
        }
        bytes
    }

    /// Takes what is decided: complete characters, and U+FFFD for bytes that no later byte can save.
    fn take_complete(&mut self) -> String {
        let mut text = String::with_capacity(self.pending.len());
        let mut rest = self.pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    rest = after;
                    let Some(broken) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[broken..];
                }
            }
        }
        let decided = self.pending.len() - rest.len();
        self.pending.drain(..decided);
        text
    }
}
