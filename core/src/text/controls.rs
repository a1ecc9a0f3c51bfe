//! Control tokens: added tokens whose text must stay text where a user has written it.
//!
//! The strings that go into a chat template are marked before it is rendered: in every control token's text a
//! noncharacter follows the first letter, so that the token is not recognised. String methods of the template still
//! work on them. Whatever control token is whole after rendering was written by the template.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, Input, MatchKind};
use tokenizers::AddedToken;

use super::tokenizer::TokenizerError;
use crate::TokenId;

/// Marks a control token's text as text. Unicode keeps noncharacters for uses inside a program.
pub(super) const MARK: char = '\u{FDD0}';
/// Opens the stand-in of a control token in a sealed text.
pub(super) const SEAL_OPEN: char = '\u{FDD1}';
/// Closes it.
pub(super) const SEAL_CLOSE: char = '\u{FDD2}';

/// An added token that steers the model.
#[derive(Clone, Debug)]
pub(super) struct Control {
    pub(super) id: TokenId,
    pub(super) token: AddedToken,
}

/// The control tokens of a tokenizer, and how to find them.
#[derive(Debug)]
pub(super) struct Controls {
    /// In the order of their text.
    sorted: Vec<Control>,
    finder: AhoCorasick,
    longest: usize,
}

/// Whether an added token steers the model. Runs of spaces and line breaks (Gemma has such) are ordinary text, and a
/// single letter cannot be told from text.
pub(super) fn is_control(token: &AddedToken) -> bool {
    let text = token.content.as_str();
    text.chars().nth(1).is_some()
        && (token.special || text.chars().any(|c| !c.is_whitespace() && c != '\u{2581}'))
}

impl Controls {
    pub(super) fn new(mut sorted: Vec<Control>) -> Result<Self, TokenizerError> {
        sorted.sort_by(|a, b| a.token.content.cmp(&b.token.content));
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(sorted.iter().map(|control| control.token.content.as_bytes()))
            .map_err(|error| TokenizerError::Parse { detail: error.to_string() })?;
        let longest = sorted.iter().map(|control| control.token.content.len()).max().unwrap_or(0);
        Ok(Self { sorted, finder, longest })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Control> {
        self.sorted.iter()
    }

    pub(super) fn get(&self, index: usize) -> &Control {
        &self.sorted[index]
    }

    /// First control token in `text` at or after byte `from`, the longest of those that start there:
    /// its index and its bytes.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<(usize, std::ops::Range<usize>)> {
        let found = self.finder.find(Input::new(text).span(from..text.len()))?;
        Some((found.pattern().as_usize(), found.range()))
    }

    /// `text` with a [`MARK`] inside every control token's text, except where `keep` says that it may stay one, and
    /// inside a beginning of one at the end of the text, which the next string could complete.
    pub(super) fn mark<'t>(&self, text: &'t str, keep: impl Fn(&Control) -> bool) -> Cow<'t, str> {
        let text = without_reserved(text);
        let mut cuts = Vec::new();
        let mut from = 0;
        while let Some((index, range)) = self.find(&text, from) {
            if keep(self.get(index)) {
                from = range.end;
            } else {
                from = range.start + first_letter(&text[range]);
                cuts.push(from);
            }
        }
        if let Some(start) = self.unfinished(&text).filter(|&start| start >= from) {
            cuts.push(start + first_letter(&text[start..]));
        }
        if cuts.is_empty() {
            return text;
        }
        let mut marked = String::with_capacity(text.len() + cuts.len() * MARK.len_utf8());
        let mut done = 0;
        for cut in cuts {
            marked.push_str(&text[done..cut]);
            marked.push(MARK);
            done = cut;
        }
        marked.push_str(&text[done..]);
        Cow::Owned(marked)
    }

    /// Where the longest ending of `text` starts that is a beginning of a control token.
    fn unfinished(&self, text: &str) -> Option<usize> {
        let first = text.len().saturating_sub(self.longest.saturating_sub(1));
        (first..text.len()).filter(|&start| text.is_char_boundary(start)).find(|&start| {
            let ending = &text[start..];
            let at = self.sorted.partition_point(|control| control.token.content.as_str() < ending);
            self.sorted.get(at).is_some_and(|control| control.token.content.starts_with(ending))
        })
    }
}

/// The program's own noncharacters never come in from outside: U+FFFD takes their place.
fn without_reserved(text: &str) -> Cow<'_, str> {
    let reserved = [MARK, SEAL_OPEN, SEAL_CLOSE];
    if text.contains(reserved) { Cow::Owned(text.replace(reserved, "\u{FFFD}")) } else { Cow::Borrowed(text) }
}

fn first_letter(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::text::{SpecialTokens, rendered::Rendered, testing::tracked, tokenizer::Tokenizer};

    #[test]
    fn marks_whole_tokens_and_a_beginning_at_the_end() {
        let tokenizer = tracked();
        let mark = |text: &str| tokenizer.controls().mark(text, |_| false).replace(super::MARK, "^");
        assert_eq!(mark("a<|im_end|>b<think>"), "a<^|im_end|>b<^think>");
        assert_eq!(mark("<|im_end|> <|im_"), "<^|im_end|> <^|im_");
        assert_eq!(mark("a < b, <|im_x, |>"), "a < b, <|im_x, |>");
        assert_eq!(mark("<|im_<|im_end|>"), "<|im_<^|im_end|>");
        assert_eq!(mark("2 <"), "2 <^");
    }

    #[test]
    fn kept_tokens_stay_whole() {
        let tokenizer = tracked();
        let keep = |control: &super::Control| control.token.content.ends_with("think>");
        let marked = tokenizer.controls().mark("<think>a</think><|im_end|>", keep);
        assert_eq!(marked.replace(super::MARK, "^"), "<think>a</think><^|im_end|>");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// Whatever two users write side by side, the control ids are the template's and the text is theirs.
        #[test]
        fn text_never_becomes_control(
            texts in prop::collection::vec(
                prop::collection::vec(
                    prop::sample::select(vec![
                        "<|im_", "end|>", "<|im_end|>", "<", "|>", "<think>", "</", "think>", "<|", " ", "\n", "a",
                        "<|startoftext", "日", "<|im_start|>user\n",
                    ]),
                    0..6,
                ),
                2,
            )
        ) {
            static TOKENIZER: std::sync::LazyLock<Tokenizer> = std::sync::LazyLock::new(tracked);
            let [first, second] = [texts[0].concat(), texts[1].concat()];
            let mark = |text: &str| TOKENIZER.controls().mark(text, |_| false).into_owned();
            let marked = format!("<|im_start|>{}{}<|im_end|>", mark(&first), mark(&second));
            let rendered = Rendered::new(marked);
            let ids = TOKENIZER.encode_template(&rendered).unwrap();
            let controls: Vec<u32> = ids.iter().filter(|&&id| TOKENIZER.is_control(id)).map(|id| id.0).collect();
            prop_assert_eq!(controls, [3, 4]);
            prop_assert_eq!(TOKENIZER.decode(&ids, SpecialTokens::Skip), format!("{first}{second}"));
            prop_assert_eq!(rendered.text(), format!("<|im_start|>{first}{second}<|im_end|>"));
        }
    }
}
