//! The bytes that a token stands for, read off the decoder of `tokenizer.json`.

use std::collections::HashMap;

use serde::Deserialize;

use super::tokenizer::TokenizerError;

/// The first bytes of an answer where the decoder strips the space that encoding has put in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// Nothing is stripped.
    Keep,
    /// One space at the start of the text.
    OneSpace,
    /// Every space marker of the first token (`Metaspace`).
    FirstToken,
}

/// Bytes of every id; `None` for ids that the tokenizer does not know.
#[derive(Debug)]
pub(super) struct TokenBytes {
    pub(super) table: Vec<Option<Box<[u8]>>>,
    pub(super) lead: Lead,
}

/// The decoders that turn each token into bytes on its own.
#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
enum Decoder {
    ByteLevel,
    ByteFallback,
    Fuse,
    Metaspace { replacement: char, prepend_scheme: String },
    Replace { pattern: Pattern, content: String },
    Sequence { decoders: Vec<serde_json::Value> },
    Strip { content: char, start: usize, stop: usize },
}

#[derive(Debug, Deserialize)]
enum Pattern {
    String(String),
}

/// What a token goes through on its way to bytes.
#[derive(Default)]
struct Steps {
    byte_level: Option<HashMap<char, u8>>,
    byte_fallback: bool,
    replace: Vec<(String, String)>,
    lead: Option<Lead>,
}

impl TokenBytes {
    /// `tokens[id]` is the text of an id in the vocabulary's own spelling; `decoder` is the field of `tokenizer.json`.
    pub(super) fn new(
        tokens: impl Iterator<Item = Option<String>>,
        decoder: &serde_json::Value,
    ) -> Result<Self, TokenizerError> {
        let mut steps = Steps::default();
        steps.read(decoder)?;
        let table = tokens.map(|token| token.map(|token| steps.bytes(&token))).collect();
        Ok(Self { table, lead: steps.lead.unwrap_or(Lead::Keep) })
    }
}

impl Steps {
    fn read(&mut self, value: &serde_json::Value) -> Result<(), TokenizerError> {
        let refuse = || TokenizerError::Decoder {
            found: value.get("type").and_then(|kind| kind.as_str()).unwrap_or("none").to_owned(),
        };
        match Decoder::deserialize(value).map_err(|_| refuse())? {
            Decoder::ByteLevel => self.byte_level = Some(byte_level_alphabet()),
            Decoder::ByteFallback => self.byte_fallback = true,
            Decoder::Fuse | Decoder::Strip { start: 0, stop: 0, .. } => {}
            Decoder::Metaspace { replacement, prepend_scheme } => {
                self.replace.push((replacement.to_string(), " ".to_owned()));
                if prepend_scheme != "never" {
                    self.lead = Some(Lead::FirstToken);
                }
            }
            Decoder::Replace { pattern: Pattern::String(from), content } => {
                self.replace.push((from, content));
            }
            Decoder::Sequence { decoders } => decoders.iter().try_for_each(|decoder| self.read(decoder))?,
            Decoder::Strip { content: ' ', start: 1, stop: 0 } => self.lead = Some(Lead::OneSpace),
            Decoder::Strip { .. } => return Err(refuse()),
        }
        Ok(())
    }

    fn bytes(&self, token: &str) -> Box<[u8]> {
        if self.byte_fallback
            && let Some(byte) = fallback_byte(token)
        {
            return [byte].into();
        }
        // An added token with a letter outside the alphabet stands for its own text.
        if let Some(alphabet) = &self.byte_level
            && let Some(bytes) = token.chars().map(|c| alphabet.get(&c).copied()).collect::<Option<Vec<_>>>()
        {
            return bytes.into();
        }
        let mut text = token.to_owned();
        for (from, to) in &self.replace {
            text = text.replace(from, to);
        }
        text.into_bytes().into()
    }
}

/// `<0xE7>` is the byte E7.
fn fallback_byte(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() == 2 { u8::from_str_radix(hex, 16).ok() } else { None }
}

/// The alphabet of byte-level BPE (GPT-2): printable bytes are themselves, the others follow from U+0100 on.
fn byte_level_alphabet() -> HashMap<char, u8> {
    let mut next = 0x100..;
    (0..=u8::MAX)
        .filter_map(|byte| {
            let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
            let code = if printable { Some(u32::from(byte)) } else { next.next() };
            Some((char::from_u32(code?)?, byte))
        })
        .collect()
}
