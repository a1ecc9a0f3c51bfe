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
