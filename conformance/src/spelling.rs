//! Texts for the ids of a model that has no tokenizer of its own.

use std::sync::Arc;

use mlxcel_core::text::{TextFiles, TextModel};
use serde_json::{Map, Value, json};

use crate::Failure;

/// Words that the first ids stand for: letters, words that begin each other, parts of characters that more than one
/// token makes up, and a line break.
const WORDS: [&[u8]; 24] = [
    b"a",
    b"b",
    b"ab",
    b"ba",
    b"abc",
    b"c",
    b"#",
    b"##",
    b" ",
    b"\n",
    b"EN",
    b"D",
    b"\xE7\xB5",
    b"\x82",
    b"\xF0\x9F",
    b"\x99\x82",
    b"\xC4",
    b"\x8F",
    b" a",
    b"ca",
    b"bb",
    b"aa",
    b"\xFF",
    b".",
];

/// Stop strings that runs of the words complete now and then: inside a token, across tokens, across the parts of a
/// character, and such that one begins another.
pub const STOPS: [&str; 12] =
    ["abab", "END", "終", "🙂", "###", "c#", "ď", "aab", "bc", "\n\n", "ba b", "cab"];

/// A text model of `vocab` ids (at least 24): the first stand for words that overlap, the others for numbers in brackets.
pub fn spelled(vocab: usize) -> Result<Arc<TextModel>, Failure> {
    spelled_as(&WORDS, vocab)
}

/// A text model of `vocab` ids: the first stand for `words`, which differ, the others for numbers in brackets.
pub fn spelled_as(words: &[&[u8]], vocab: usize) -> Result<Arc<TextModel>, Failure> {
    let bytes = |value: Value| value.to_string().into_bytes();
    let files = TextFiles {
        tokenizer_json: bytes(byte_level(words, &[], vocab)).into(),
        // An end token must be named; none of the ids is one.
        generation_config: Some(bytes(json!({"eos_token_id": vocab})).into()),
        ..TextFiles::default()
    };
    let text = TextModel::load(&files).map_err(|error| Failure::Fixture(error.to_string()))?;
    Ok(Arc::new(text))
}

/// The `tokenizer.json` of [`spelled_as`]; without words, the first 256 ids are the bytes. `controls` follow the words.
pub fn byte_level(words: &[&[u8]], controls: &[&str], vocab: usize) -> Value {
    let bytes: Vec<_> = (0..=255u8).map(|byte| [byte]).collect();
    let bytes: Vec<&[u8]> = bytes.iter().map(<[u8; 1]>::as_slice).collect();
    let words = if words.is_empty() { &bytes } else { words };
    let mut ids = Map::new();
    for id in 0..vocab - controls.len() {
        let numbered = format!("<{id}>").into_bytes();
        let word = words.get(id).copied().unwrap_or(&numbered);
        ids.insert(word.iter().map(|&byte| letter(byte)).collect(), id.into());
    }
    let added = |(nth, content): (usize, &&str)| {
        json!({"id": vocab - controls.len() + nth, "content": content, "single_word": false, "lstrip": false,
               "rstrip": false, "normalized": false, "special": content.starts_with("<|")})
    };
    let added: Vec<_> = controls.iter().enumerate().map(added).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": ids, "merges": []},
    })
}

/// Letter of the byte-level alphabet for a byte: itself where it can be printed, else the next one from U+0100 on.
fn letter(byte: u8) -> char {
    let printed = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printed(&byte) {
        return byte as char;
    }
    let before = (0..byte).filter(|byte| !printed(byte)).count();
    char::from_u32(0x100 + before as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use mlxcel_core::{TokenId, text::SpecialTokens};

    #[test]
    fn ids_have_their_words() {
        let text = super::spelled(64).unwrap();
        let decode = |ids: &[u32]| {
            let ids: Vec<_> = ids.iter().copied().map(TokenId).collect();
            text.tokenizer.decode(&ids, SpecialTokens::Skip)
        };
        assert_eq!(decode(&[4, 12, 13, 14, 15, 9, 22, 63]), "abc終🙂\n\u{FFFD}<63>");
        assert!(text.tokenizer.knows(TokenId(63)) && !text.tokenizer.knows(TokenId(64)));
    }
}
