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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::testing::{build, byte_fallback_json, byte_level, byte_level_json, ids, tracked};

    const FAMILY: [&[u8]; 7] = [
        b"\xF0\x9F\x91",
        b"\xA9\xE2\x80",
        b"\x8D\xF0",
        b"\x9F\x91\xA9",
        b"\xE2\x80\x8D",
        b"\xF0\x9F\x91",
        b"\xA7",
    ];

    /// Pieces of a list of tokens given as bytes; the flush is the last piece.
    fn pieces(tokens: &[&[u8]]) -> Vec<String> {
        let mut words: Vec<&[u8]> = tokens.iter().copied().filter(|token| token.len() > 1).collect();
        words.sort_unstable();
        words.dedup();
        let tokenizer = byte_level(&words, &[]);
        let id = |token: &[u8]| match token {
            [byte] => TokenId(u32::from(*byte)),
            token => TokenId(256 + words.iter().position(|word| *word == token).unwrap() as u32),
        };
        let mut detokenizer = Detokenizer::new(SpecialTokens::Skip);
        let mut pieces: Vec<String> =
            tokens.iter().map(|token| detokenizer.push(&tokenizer, id(token))).collect();
        pieces.push(detokenizer.flush());
        pieces
    }

    #[test]
    fn characters_split_over_tokens() {
        assert_eq!(pieces(&[b" hi", b"\xF0\x9F", b"\x99\x82", b"!"]), [" hi", "", "🙂", "!", ""]);
        assert_eq!(pieces(&[b"\xC4", b"\x8F", b" a"]), ["", "ď", " a", ""]);
        assert_eq!(pieces(&[b"\xE6\x97", b" x"]), ["", "\u{FFFD} x", ""]);
        assert_eq!(pieces(&[b"\xE6\x97", b"\xA5 "]), ["", "日 ", ""]);
        assert_eq!(pieces(&[b"a", b"\xF0\x9F"]), ["a", "", "\u{FFFD}"]);
        assert_eq!(pieces(&FAMILY).concat(), "👩\u{200D}👩\u{200D}👧");
        assert!(!pieces(&FAMILY).concat().contains('\u{FFFD}'));
        assert_eq!(pieces(&[b"\xFF", b"a"]), ["\u{FFFD}", "a", ""]);
    }

    #[test]
    fn special_tokens_leave_text_only_when_kept() {
        let tokenizer = byte_level(&[], &[("<|im_end|>", true), ("<think>", false)]);
        let list = tokenizer.encode("a<|im_end|><think>").unwrap();
        assert_eq!(tokenizer.decode(&list, SpecialTokens::Skip), "a<think>");
        assert_eq!(tokenizer.decode(&list, SpecialTokens::Keep), "a<|im_end|><think>");
    }

    #[test]
    fn a_special_token_inside_a_character_does_not_break_it() {
        let tokenizer = byte_level(&[], &[("<|x|>", true)]);
        assert_eq!(tokenizer.decode(&ids(&[0xC3, 256, 0xA9]), SpecialTokens::Skip), "é");
    }

    #[test]
    fn unknown_ids_leave_no_text() {
        assert_eq!(tracked().decode(&ids(&[4096, u32::MAX]), SpecialTokens::Keep), "");
    }

    #[test]
    fn space_that_encoding_put_in_front_goes_again() {
        let tokenizer = build(&byte_fallback_json());
        let list = tokenizer.encode("a  b 終").unwrap();
        assert_eq!(tokenizer.decode(&list, SpecialTokens::Skip), "a  b 終");

        let mut metaspace = byte_fallback_json();
        metaspace["decoder"] = serde_json::json!(
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
        let tokenizer = build(&metaspace);
        let list = tokenizer.encode("a b").unwrap();
        assert_eq!(tokenizer.decode(&list, SpecialTokens::Skip), "a b");
    }

    fn streamed(tokenizer: &Tokenizer, list: &[TokenId], special: SpecialTokens) -> String {
        let mut detokenizer = Detokenizer::new(special);
        let mut text = String::new();
        for &id in list {
            text.push_str(&detokenizer.push(tokenizer, id));
            assert!(detokenizer.pending.len() <= 3, "{:?} wait", detokenizer.pending);
        }
        text + &detokenizer.flush()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn pieces_equal_the_library_on_any_ids(list in prop::collection::vec(0u32..4096, 0..60)) {
            static SHARED: std::sync::LazyLock<(Tokenizer, tokenizers::Tokenizer)> =
                std::sync::LazyLock::new(|| {
                    let json = crate::text::testing::tracked_files().tokenizer_json;
                    (tracked(), tokenizers::Tokenizer::from_bytes(json).unwrap())
                });
            let (tokenizer, library) = &*SHARED;
            for (special, skip) in [(SpecialTokens::Skip, true), (SpecialTokens::Keep, false)] {
                let text = streamed(tokenizer, &ids(&list), special);
                prop_assert_eq!(text, library.decode(&list, skip).unwrap());
            }
        }

        #[test]
        fn pieces_equal_the_whole_on_any_bytes(list in prop::collection::vec(0u32..260, 0..40)) {
            static SHARED: std::sync::LazyLock<(Tokenizer, tokenizers::Tokenizer)> =
                std::sync::LazyLock::new(|| {
                    let json = byte_level_json(&[b"\xE7\xB5", b"\x82a", b"\xF0\x9F"], &[("<|x|>", true)]);
                    (build(&json), tokenizers::Tokenizer::from_bytes(json.to_string()).unwrap())
                });
            let (tokenizer, library) = &*SHARED;
            let text = streamed(tokenizer, &ids(&list), SpecialTokens::Keep);
            prop_assert_eq!(text, library.decode(&list, false).unwrap());
        }

        #[test]
        fn byte_fallback_gives_text_back(text in "[a-z é終🙂\u{200D}日]{0,20}", cut in 0usize..20) {
            static SHARED: std::sync::LazyLock<(Tokenizer, tokenizers::Tokenizer)> =
                std::sync::LazyLock::new(|| {
                    let json = byte_fallback_json();
                    (build(&json), tokenizers::Tokenizer::from_bytes(json.to_string()).unwrap())
                });
            let (tokenizer, library) = &*SHARED;
            let list = tokenizer.encode(&text).unwrap();
            prop_assert_eq!(&streamed(tokenizer, &list, SpecialTokens::Skip), &text);
            // The library writes U+FFFD for every byte of a run with a broken character; it is right for whole ones.
            let raw: Vec<u32> = list.iter().map(|id| id.0).collect();
            prop_assert_eq!(&library.decode(&raw, true).unwrap(), &text);
            // Cut anywhere, the text before the cut stays.
            let cut = cut.min(list.len());
            let part = streamed(tokenizer, &list[..cut], SpecialTokens::Skip);
            let kept = part.trim_end_matches(char::REPLACEMENT_CHARACTER);
            prop_assert!(text.starts_with(kept));
        }
    }
}
