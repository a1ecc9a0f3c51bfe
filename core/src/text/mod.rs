//! Text: tokenizer, incremental detokenizer, chat template, end tokens.

mod controls;
mod detokenizer;
mod eos;
mod files;
mod reasoning;
mod rendered;
mod sealed;
mod stop;
mod stream;
mod template;
#[cfg(test)]
pub(crate) mod testing;
mod token_bytes;
mod tokenizer;

pub use detokenizer::{Detokenizer, SpecialTokens};
pub use eos::{EosError, EosSet};
pub use files::{FilesError, TextFiles};
pub use reasoning::{Channel, ReasoningFormat, Splitter};
pub use rendered::Rendered;
pub use stop::{StopError, StopMatcher, StopStep};
pub use stream::{Piece, StreamStep, TextStream};
pub use template::{ChatRequest, ChatTemplate, TemplateError};
pub use tokenizer::{Tokenizer, TokenizerError};
