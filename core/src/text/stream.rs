//! The text of an answer while it is made: channels, characters and stop strings, token by token.

use super::{
    detokenizer::{Detokenizer, SpecialTokens},
    reasoning::{Channel, Splitter},
    stop::StopMatcher,
    tokenizer::Tokenizer,
};
use crate::TokenId;

/// Text of one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What the text is for.
    pub channel: Channel,
    /// The text, never empty.
    pub text: String,
}

/// What a token led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamStep {
    /// Text that is certain now, in the order of the answer.
    pub pieces: Vec<Piece>,
    /// Index of the stop string that is complete with this token: it is the last token of the answer.
    pub stop: Option<usize>,
}

/// Turns the tokens of one answer into text. Pieces put together are the same however tokens arrive in rounds.
///
/// End tokens are not pushed: the round takes them out first. A clone can look ahead.
#[derive(Clone, Debug)]
pub struct TextStream {
    splitter: Splitter,
    detokenizer: Detokenizer,
    stops: StopMatcher,
    edges: Edges,
    tokens: usize,
}

impl TextStream {
    /// A stream at the start of an answer.
    pub fn new(splitter: Splitter, stops: StopMatcher, special: SpecialTokens) -> Self {
        let edges = Edges { start: splitter.channel() == Some(Channel::Reasoning), newlines: 0 };
        Self { splitter, detokenizer: Detokenizer::new(special), stops, edges, tokens: 0 }
    }

    /// Takes the next token. After a stop string was complete, tokens are ignored and not counted.
    #[must_use]
    pub fn push(&mut self, tokenizer: &Tokenizer, id: TokenId) -> StreamStep {
        let mut step = StreamStep::default();
        if self.stops.stopped() {
            return step;
        }
        self.tokens += 1;
        let before = self.splitter.channel();
        if let Some(channel) = self.splitter.push(tokenizer, id) {
            let text = self.detokenizer.push(tokenizer, id);
            self.take(channel, &text, &mut step);
        } else if let Some(channel) = before {
            // No stop string and no character goes across a border.
            self.close(channel, &mut step);
            self.edges = Edges { start: true, newlines: 0 };
        }
        step
    }

    /// Ends the answer and gives out what was held back.
    #[must_use]
    pub fn finish(&mut self) -> Vec<Piece> {
        let mut step = StreamStep::default();
        if let Some(channel) = self.splitter.channel().filter(|_| !self.stops.stopped()) {
            self.close(channel, &mut step);
        }
        step.pieces
    }

    /// Tokens that count: all that were pushed, up to and with the one that completed a stop string.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    fn take(&mut self, channel: Channel, text: &str, step: &mut StreamStep) {
        let text = if self.splitter.trims() { self.edges.trim(channel, text) } else { text.to_owned() };
        let found = self.stops.push(&text);
        step.stop = step.stop.or(found.stop);
        add(step, channel, found.text);
    }

    fn close(&mut self, channel: Channel, step: &mut StreamStep) {
        let rest = self.detokenizer.flush();
        self.take(channel, &rest, step);
        add(step, channel, self.stops.finish());
    }
}

fn add(step: &mut StreamStep, channel: Channel, text: String) {
    match step.pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(last) if last.channel == channel => last.text.push_str(&text),
        _ => step.pieces.push(Piece { channel, text }),
    }
}

/// Line breaks around reasoning tags are layout: those after a tag, and those before the closing one.
#[derive(Clone, Copy, Debug)]
struct Edges {
    /// Whether only line breaks were seen since the tag.
    start: bool,
    /// Line breaks of reasoning that wait: the closing tag may follow.
    newlines: usize,
}

impl Edges {
    fn trim(&mut self, channel: Channel, text: &str) -> String {
        let text = if self.start { text.trim_start_matches('\n') } else { text };
        if text.is_empty() {
            return String::new();
        }
        self.start = false;
        if channel != Channel::Reasoning {
            return text.to_owned();
        }
        let words = text.trim_end_matches('\n');
        let after = text.len() - words.len();
        if words.is_empty() {
            self.newlines += after;
            return String::new();
        }
        let out = "\n".repeat(self.newlines) + words;
        self.newlines = after;
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::{
        ReasoningFormat,
        testing::{byte_level, ids, tracked},
    };

    fn stream(tokenizer: &Tokenizer, prompt: &str, stops: &[&str]) -> TextStream {
        let prompt = tokenizer.encode(prompt).unwrap();
        let splitter = ReasoningFormat::detect(tokenizer).splitter(tokenizer, &prompt);
        TextStream::new(splitter, StopMatcher::new(stops).unwrap(), SpecialTokens::Skip)
    }

    /// (reasoning, content, tokens that count, stop)
    fn run(mut stream: TextStream, tokenizer: &Tokenizer, list: &[TokenId]) -> (String, String, usize, bool) {
        let mut pieces = Vec::new();
        let mut stopped = false;
        for &id in list {
            let step = stream.push(tokenizer, id);
            pieces.extend(step.pieces);
            stopped |= step.stop.is_some();
        }
        pieces.extend(stream.finish());
        assert!(stream.finish().is_empty());
        let of = |channel| {
            pieces.iter().filter(|piece| piece.channel == channel).map(|piece| piece.text.as_str()).collect()
        };
        assert!(pieces.iter().all(|piece| !piece.text.is_empty()));
        (of(Channel::Reasoning), of(Channel::Content), stream.tokens(), stopped)
    }

    #[test]
    fn reasoning_and_content_without_the_line_breaks_of_the_tags() {
        let tokenizer = tracked();
        let list = tokenizer.encode("<think>\nfirst\n\nthen\n</think>\n\nThe\n\nanswer\n").unwrap();
        let (reasoning, content, tokens, _) = run(stream(&tokenizer, "Hi", &[]), &tokenizer, &list);
        assert_eq!(reasoning, "first\n\nthen");
        assert_eq!(content, "The\n\nanswer\n");
        assert_eq!(tokens, list.len());
    }

    #[test]
    fn an_answer_without_tags_is_untouched() {
        let tokenizer = tracked();
        let list = tokenizer.encode("\n\nThe answer\n").unwrap();
        assert_eq!(run(stream(&tokenizer, "Hi", &[]), &tokenizer, &list).1, "\n\nThe answer\n");
    }

    #[test]
    fn a_stop_string_split_over_tokens_of_a_character() {
        let tokenizer = byte_level(&[b"\xE7\xB5"], &[]);
        let list = ids(&[256, 0x82, u32::from(b'x')]);
        let (_, content, tokens, stopped) = run(stream(&tokenizer, "", &["終"]), &tokenizer, &list);
        assert_eq!((content.as_str(), tokens, stopped), ("", 2, true));
    }

    #[test]
    fn a_stop_string_does_not_go_across_a_tag() {
        let tokenizer = tracked();
        let list = tokenizer.encode("<think>EN</think>D").unwrap();
        let (reasoning, content, _, stopped) = run(stream(&tokenizer, "", &["END"]), &tokenizer, &list);
        assert_eq!((reasoning.as_str(), content.as_str(), stopped), ("EN", "D", false));
    }

    #[test]
    fn the_line_breaks_of_a_tag_do_not_stop() {
        let tokenizer = tracked();
        let list = tokenizer.encode("<think>a</think>\n\nb\n\nc").unwrap();
        let (_, content, _, stopped) = run(stream(&tokenizer, "", &["\n\n"]), &tokenizer, &list);
        assert_eq!((content.as_str(), stopped), ("b", true));
    }

    #[test]
    fn an_unfinished_character_comes_out_at_the_end() {
        let tokenizer = byte_level(&[], &[]);
        let list = ids(&[u32::from(b'a'), 0xF0, 0x9F]);
        assert_eq!(run(stream(&tokenizer, "", &[]), &tokenizer, &list).1, "a\u{FFFD}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Without tags a stream is the decoding of the whole, cut at the stop string.
        #[test]
        fn equals_the_whole(list in prop::collection::vec(16u32..4096, 0..40), stop in "[a-e ]{1,2}") {
            static TOKENIZER: std::sync::LazyLock<Tokenizer> = std::sync::LazyLock::new(tracked);
            let list = ids(&list);
            let whole = TOKENIZER.decode(&list, SpecialTokens::Skip);
            let (_, content, tokens, stopped) = run(stream(&TOKENIZER, "", &[&stop]), &TOKENIZER, &list);
            prop_assert_eq!(stopped, whole.contains(&stop));
            prop_assert_eq!(&content, whole.split(&stop).next().unwrap());
            let kept = TOKENIZER.decode(&list[..tokens], SpecialTokens::Skip);
            prop_assert_eq!(stopped, kept.contains(&stop));
            prop_assert!(!stopped || !TOKENIZER.decode(&list[..tokens - 1], SpecialTokens::Skip).contains(&stop));
        }
    }
}
