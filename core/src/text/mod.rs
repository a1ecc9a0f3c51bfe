//! Text: from messages to token ids, and from token ids to the text of an answer.
//!
//! [`TextModel`] holds what a checkpoint says about text. A prompt comes from its chat template or from raw text; a
//! [`TextStream`] turns the answer's tokens into text while it is made. Nothing here needs a model.

mod controls;
mod detokenizer;
mod eos;
mod files;
mod generation;
mod model;
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
pub use model::{MAX_PROMPT_BYTES, Prompt, TextError, TextModel};
pub use reasoning::{Channel, ReasoningFormat, Splitter};
pub use rendered::Rendered;
pub use stop::{StopError, StopMatcher, StopStep};
pub use stream::{Piece, StreamStep, TextStream};
pub use template::{ChatRequest, ChatTemplate, TemplateError};
pub use tokenizer::{Tokenizer, TokenizerError};
