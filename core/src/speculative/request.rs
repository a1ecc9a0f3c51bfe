//! What a request asks for.

use super::width::WidthPolicy;
use crate::{TokenId, Width, sampling::CheckedSettings};

/// One request: a prompt, how to decide tokens, and when to stop.
pub struct Request {
    /// Token ids of the prompt, at least one.
    pub prompt: Vec<TokenId>,
    /// How tokens are decided.
    pub sampling: CheckedSettings,
    /// Index among the choices of one request.
    pub choice: u64,
    /// Tokens to emit at most.
    pub max_tokens: usize,
    /// Tokens to emit before an end token may come.
    pub min_tokens: usize,
    /// Ids that end the answer; empty to ignore them.
    pub eos: Vec<TokenId>,
    /// Sees every token and may end the answer: stop strings.
    pub watch: Option<Box<dyn Watch>>,
    /// Whether and how wide to speculate.
    pub speculation: Speculation,
}

/// Whether and how wide a request speculates.
#[derive(Clone, Debug)]
pub enum Speculation {
    /// Not at all.
    Off,
    /// Blocks of this many rows, fewer near the end of the answer or of the context.
    Fixed(Width),
    /// Blocks as wide as pays, up to the policy's ceiling; width 1 where none does.
    Adaptive(WidthPolicy),
}

/// Sees the emitted tokens in order, before they are committed.
pub trait Watch: Send {
    /// Takes the next token; true if the answer ends with it.
    fn ends_with(&mut self, token: TokenId) -> bool;
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// An end token was emitted; it is the last of the tokens.
    Eos,
    /// A [`Watch`] ended it.
    Stop,
    /// `max_tokens` were emitted.
    MaxTokens,
    /// The context is full.
    Context,
}

impl Finish {
    /// The word that clients know: `stop` or `length`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Eos | Self::Stop => "stop",
            Self::MaxTokens | Self::Context => "length",
        }
    }
}
