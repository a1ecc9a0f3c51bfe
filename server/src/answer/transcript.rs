//! Tokens to text.

use std::sync::Arc;

use mlxcel_core::{
    TokenId,
    sampling::{Decision, TokenLogprobs},
    text::{Channel, Piece, TextModel, TextStream},
};

use crate::request::Common;

/// Turns the tokens of one answer into its text.
pub(super) struct Transcript {
    pub(super) text: Arc<TextModel>,
    stream: TextStream,
    /// Tokens that end the answer.
    eos: Vec<TokenId>,
}

/// What some tokens added to an answer.
#[derive(Debug, Default)]
pub(super) struct Delta {
    pub(super) content: String,
    pub(super) reasoning: String,
    /// Of every token but an end token, if they were asked for.
    pub(super) logprobs: Vec<Entry>,
    /// Tokens, an end token included.
    pub(super) tokens: usize,
}

/// The log-probabilities of a token, and where its text begins.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) logprobs: TokenLogprobs,
    /// Characters of content before the text that came with this token.
    pub(super) offset: usize,
}

impl Delta {
    /// Whether there is anything to read.
    pub(super) fn is_empty(&self) -> bool {
        self.content.is_empty() && self.reasoning.is_empty() && self.logprobs.is_empty()
    }

    /// Appends what came after.
    pub(super) fn append(&mut self, later: Self) {
        self.content.push_str(&later.content);
        self.reasoning.push_str(&later.reasoning);
        self.logprobs.extend(later.logprobs);
        self.tokens += later.tokens;
    }

    fn add(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece.channel {
                Channel::Reasoning => self.reasoning.push_str(&piece.text),
                // Calls are not taken apart yet; their text is not lost.
                Channel::Content | Channel::ToolCall => self.content.push_str(&piece.text),
            }
        }
    }
}

impl Transcript {
    pub(super) fn new(text: Arc<TextModel>, stream: TextStream, common: &Common) -> Self {
        let eos = common.settings.eos(&text.eos);
        Self { text, stream, eos }
    }

    /// Takes tokens of the answer, in order; `offset` counts the characters of content before them.
    pub(super) fn take(&mut self, decisions: Vec<Decision>, offset: usize) -> Delta {
        let mut delta = Delta { tokens: decisions.len(), ..Delta::default() };
        for Decision { token, logprobs } in decisions {
            if self.eos.contains(&token) {
                continue;
            }
            if let Some(logprobs) = logprobs {
                let offset = offset + delta.content.chars().count();
                delta.logprobs.push(Entry { logprobs, offset });
            }
            // End tokens are no text, whether they end the answer or not.
            if !self.text.eos.contains(token) {
                let step = self.stream.push(&self.text.tokenizer, token);
                delta.add(step.pieces);
            }
        }
        delta
    }

    /// Gives out what was held back.
    pub(super) fn finish(&mut self) -> Delta {
        let mut delta = Delta::default();
        delta.add(self.stream.finish());
        delta
    }
}
