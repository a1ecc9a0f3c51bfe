//! Text: tokenizer, incremental detokenizer, chat template, end tokens.

mod controls;
mod detokenizer;
mod eos;
mod files;
mod rendered;
mod sealed;
mod template;
mod token_bytes;
mod tokenizer;

pub use detokenizer::{Detokenizer, SpecialTokens};
pub use eos::{EosError, EosSet};
pub use files::{FilesError, TextFiles};
pub use rendered::Rendered;
pub use template::{ChatRequest, ChatTemplate, TemplateError};
pub use tokenizer::{Tokenizer, TokenizerError};
