//! Which part of an answer is reasoning, which the answer itself, which a tool call.
//!
//! How a model marks them is found in its vocabulary, not by its name.

use super::tokenizer::Tokenizer;
use crate::TokenId;

/// Bytes of a message header that are looked at.
const MAX_HEADER: usize = 1024;

/// What a text of the model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// The answer.
    Content,
    /// Thoughts on the way to it.
    Reasoning,
    /// A message to a tool.
    ToolCall,
}

/// How a model marks its reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningFormat {
    /// Not at all: all text is content.
    None,
    /// `<think>` reasoning `</think>` content.
    Tags {
        /// `<think>`.
        open: TokenId,
        /// `</think>`.
        close: TokenId,
    },
    /// Messages with headers: `<|start|>assistant to=RECIPIENT<|message|>BODY<|eom|>`, the last one of a turn ends
    /// with `<|eot|>`. A message to `self` is reasoning, one to `user` content, any other a tool call.
    Messages {
        /// `<|start|>`, before a header.
        start: TokenId,
        /// `<|message|>`, between header and body.
        message: TokenId,
        /// `<|eom|>`, after a body.
        end_of_message: TokenId,
        /// `<|eot|>`, after the last body.
        end_of_turn: TokenId,
    },
}

impl ReasoningFormat {
    /// Looks for the tokens of each format among those that the tokenizer recognises as a whole.
    pub fn detect(tokenizer: &Tokenizer) -> Self {
        let id = |token: &str| tokenizer.added_id(token);
        if let (Some(start), Some(message), Some(end_of_message), Some(end_of_turn)) =
            (id("<|start|>"), id("<|message|>"), id("<|eom|>"), id("<|eot|>"))
        {
            return Self::Messages { start, message, end_of_message, end_of_turn };
        }
        match (id("<think>"), id("</think>")) {
            (Some(open), Some(close)) => Self::Tags { open, close },
            _ => Self::None,
        }
    }

    /// A splitter for the answer to `prompt`. The prompt may have opened the reasoning, or a header, already.
    pub fn splitter(self, tokenizer: &Tokenizer, prompt: &[TokenId]) -> Splitter {
        let state = match self {
            Self::None => State::Body(Channel::Content),
            Self::Tags { open, .. } => {
                let last = prompt.iter().rev().find(|&&id| !is_space(tokenizer, id));
                let opened = last == Some(&open);
                State::Body(if opened { Channel::Reasoning } else { Channel::Content })
            }
            Self::Messages { .. } => {
                let mut splitter = Splitter { format: self, state: State::Body(Channel::Content) };
                let from = prompt.iter().rposition(|&id| self.is_marker(id)).unwrap_or(prompt.len());
                // A body needs its header, which stands before the last marker.
                let from = prompt[..from].iter().rposition(|&id| self.is_marker(id)).unwrap_or(from);
                for &id in &prompt[from..] {
                    let _ = splitter.push(tokenizer, id);
                }
                return splitter;
            }
        };
        Splitter { format: self, state }
    }

    /// Whether the token marks a border and leaves no text.
    pub fn is_marker(self, id: TokenId) -> bool {
        match self {
            Self::None => false,
            Self::Tags { open, close } => id == open || id == close,
            Self::Messages { start, message, end_of_message, end_of_turn } => {
                [start, message, end_of_message, end_of_turn].contains(&id)
            }
        }
    }
}

/// Follows the borders between channels, token by token.
#[derive(Clone, Debug)]
pub struct Splitter {
    format: ReasoningFormat,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Between `<|start|>` and `<|message|>`: the header so far.
    Header(Vec<u8>),
    Body(Channel),
    /// After a message. Text here belongs to no message; it counts as content, so that none is lost.
    Idle,
}

impl Splitter {
    /// The channel of the token's text; `None` for a marker or a part of a header, which leaves no text.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: TokenId) -> Option<Channel> {
        match self.format {
            ReasoningFormat::Tags { open, .. } if id == open => self.state = State::Body(Channel::Reasoning),
            ReasoningFormat::Tags { close, .. } if id == close => self.state = State::Body(Channel::Content),
            ReasoningFormat::Messages { start, .. } if id == start => self.state = State::Header(Vec::new()),
            ReasoningFormat::Messages { message, .. } if id == message => {
                let channel = match &self.state {
                    State::Header(header) => recipient_channel(header),
                    State::Body(_) | State::Idle => Channel::Content,
                };
                self.state = State::Body(channel);
            }
            ReasoningFormat::Messages { end_of_message, end_of_turn, .. }
                if id == end_of_message || id == end_of_turn =>
            {
                self.state = State::Idle;
            }
            _ => return self.text(tokenizer, id),
        }
        None
    }

    fn text(&mut self, tokenizer: &Tokenizer, id: TokenId) -> Option<Channel> {
        match &mut self.state {
            State::Header(header) => {
                let bytes = tokenizer.bytes(id).unwrap_or_default();
                if header.len() + bytes.len() <= MAX_HEADER {
                    header.extend_from_slice(bytes);
                }
                None
            }
            State::Body(channel) => Some(*channel),
            State::Idle => Some(Channel::Content),
        }
    }

    /// The channel that text would go to now; `None` within a header.
    pub fn channel(&self) -> Option<Channel> {
        match self.state {
            State::Header(_) => None,
            State::Body(channel) => Some(channel),
            State::Idle => Some(Channel::Content),
        }
    }

    /// Whether line breaks next to a marker are layout and no text.
    pub(super) fn trims(&self) -> bool {
        matches!(self.format, ReasoningFormat::Tags { .. })
    }
}

/// `assistant to=self` is reasoning. Without a recipient the message is for the user.
fn recipient_channel(header: &[u8]) -> Channel {
    let header = String::from_utf8_lossy(header);
    match header.split_whitespace().find_map(|word| word.strip_prefix("to=")) {
        None | Some("user") => Channel::Content,
        Some("self") => Channel::Reasoning,
        Some(_) => Channel::ToolCall,
    }
}

fn is_space(tokenizer: &Tokenizer, id: TokenId) -> bool {
    tokenizer.bytes(id).is_some_and(|bytes| bytes.iter().all(u8::is_ascii_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::testing::{byte_level, tracked};

    /// Text of each channel in the order of the answer.
    fn split(tokenizer: &Tokenizer, prompt: &str, answer: &str) -> Vec<(Channel, String)> {
        let prompt = tokenizer.encode(prompt).unwrap();
        let mut splitter = ReasoningFormat::detect(tokenizer).splitter(tokenizer, &prompt);
        let mut parts: Vec<(Channel, String)> = Vec::new();
        for id in tokenizer.encode(answer).unwrap() {
            let Some(channel) = splitter.push(tokenizer, id) else { continue };
            let text = String::from_utf8(tokenizer.bytes(id).unwrap().to_vec()).unwrap();
            match parts.last_mut() {
                Some((last, whole)) if *last == channel => whole.push_str(&text),
                _ => parts.push((channel, text)),
            }
        }
        parts
    }

    fn part(channel: Channel, text: &str) -> (Channel, String) {
        (channel, text.to_owned())
    }

    fn messages() -> Tokenizer {
        let tokens = ["<|start|>", "<|message|>", "<|eom|>", "<|eot|>"].map(|token| (token, true));
        byte_level(&[], &tokens)
    }

    #[test]
    fn tags_in_the_answer() {
        let parts = split(&tracked(), "Hi", "<think>so</think>yes");
        assert_eq!(parts, [part(Channel::Reasoning, "so"), part(Channel::Content, "yes")]);
    }

    #[test]
    fn a_prompt_that_ends_with_the_opener_starts_inside() {
        let parts = split(&tracked(), "Hi<think>\n", "so</think>yes");
        assert_eq!(parts, [part(Channel::Reasoning, "so"), part(Channel::Content, "yes")]);
    }

    #[test]
    fn an_empty_pair_in_the_prompt_starts_outside() {
        assert_eq!(split(&tracked(), "<think>\n\n</think>\n\n", "yes"), [part(Channel::Content, "yes")]);
        assert_eq!(split(&tracked(), "<think> is a tag", "yes"), [part(Channel::Content, "yes")]);
    }

    #[test]
    fn messages_by_recipient() {
        let answer = "to=self<|message|>hm<|eom|><|start|>assistant to=lookup<|message|><call/><|eom|>\
                      <|start|>assistant to=user<|message|>yes<|eot|>";
        assert_eq!(
            split(&messages(), "<|start|>user<|message|>Hi<|eot|><|start|>assistant ", answer),
            [
                part(Channel::Reasoning, "hm"),
                part(Channel::ToolCall, "<call/>"),
                part(Channel::Content, "yes")
            ]
        );
    }

    #[test]
    fn a_prompt_may_end_inside_a_body() {
        let parts = split(&messages(), "<|start|>assistant to=self<|message|>I th", "ink<|eom|>lost?");
        assert_eq!(parts, [part(Channel::Reasoning, "ink"), part(Channel::Content, "lost?")]);
    }

    #[test]
    fn no_recipient_is_the_user_and_no_marker_is_content() {
        assert_eq!(split(&messages(), "<|start|>assistant", "<|message|>a"), [part(Channel::Content, "a")]);
        assert_eq!(split(&messages(), "raw", "a"), [part(Channel::Content, "a")]);
    }

    #[test]
    fn detection_needs_all_tokens() {
        assert_eq!(ReasoningFormat::detect(&byte_level(&[], &[("<think>", false)])), ReasoningFormat::None);
        let some = byte_level(&[], &[("<|start|>", true), ("<|message|>", true)]);
        assert_eq!(ReasoningFormat::detect(&some), ReasoningFormat::None);
        assert!(matches!(ReasoningFormat::detect(&messages()), ReasoningFormat::Messages { .. }));
        assert!(matches!(ReasoningFormat::detect(&tracked()), ReasoningFormat::Tags { .. }));
    }
}
