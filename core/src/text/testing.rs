//! Tokenizers for tests: the tracked byte-level one, and small ones made on the spot.

use std::{borrow::Cow, fs, path::PathBuf};

use serde_json::{Value, json};

use super::{TextFiles, Tokenizer};
use crate::TokenId;

/// The text files of the target that the program carries inside.
pub(crate) fn tracked_files() -> TextFiles<'static> {
    // There is one pair, whatever its family.
    let pairs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../cli/demo/assets");
    let folder = fs::read_dir(pairs).unwrap().next().unwrap().unwrap().path().join("target");
    TextFiles::load(|name| match fs::read(folder.join(name)) {
        Ok(bytes) => Ok(Some(Cow::Owned(bytes))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    })
    .unwrap()
}

/// Their tokenizer.
pub(crate) fn tracked() -> Tokenizer {
    Tokenizer::from_json(&tracked_files().tokenizer_json).unwrap()
}

pub(crate) fn build(json: &Value) -> Tokenizer {
    Tokenizer::from_json(json.to_string().as_bytes()).unwrap()
}

pub(crate) fn added(id: usize, content: &str, special: bool) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
           "normalized": false, "special": special})
}

/// Letter of the byte-level alphabet for a byte.
fn letter(byte: u8) -> char {
    if matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF) {
        return byte as char;
    }
    let before = (0..byte).filter(|&b| !matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)).count();
    char::from_u32(0x100 + before as u32).unwrap()
}

/// A byte-level tokenizer: ids 0 to 255 are the bytes, then `words` (any bytes, reached by no merge), then `tokens`
/// as (content, special).
pub(crate) fn byte_level_json(words: &[&[u8]], tokens: &[(&str, bool)]) -> Value {
    let mut vocab = serde_json::Map::new();
    for byte in 0..=255u8 {
        vocab.insert(letter(byte).to_string(), json!(byte));
    }
    for word in words {
        let text: String = word.iter().map(|&byte| letter(byte)).collect();
        vocab.insert(text, json!(vocab.len()));
    }
    let first = vocab.len();
    let added: Vec<Value> = tokens
        .iter()
        .enumerate()
        .map(|(nth, (content, special))| added(first + nth, content, *special))
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
                "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": []},
    })
}

/// A byte-level tokenizer, see [`byte_level_json`].
pub(crate) fn byte_level(words: &[&[u8]], tokens: &[(&str, bool)]) -> Tokenizer {
    build(&byte_level_json(words, tokens))
}

/// A tokenizer in the manner of Llama 2: a space marker in front, letters or byte tokens `<0xNN>` (ids 3 to 258).
pub(crate) fn byte_fallback_json() -> Value {
    let mut vocab = serde_json::Map::new();
    for word in ["<unk>", "<s>", "</s>"] {
        vocab.insert(word.to_owned(), json!(vocab.len()));
    }
    for byte in 0..=255 {
        vocab.insert(format!("<0x{byte:02X}>"), json!(vocab.len()));
    }
    for letter in "▁abcdefghijklmnopqrstuvwxyz<>/|_é".chars() {
        vocab.insert(letter.to_string(), json!(vocab.len()));
    }
    vocab.insert("▁a".to_owned(), json!(vocab.len()));
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "vocab": vocab,
                  "merges": ["▁ a"]},
    })
}

pub(crate) fn ids(raw: &[u32]) -> Vec<TokenId> {
    raw.iter().copied().map(TokenId).collect()
}
