//! What can be wrong with a chat template or with what it is given.

use minijinja::ErrorKind;

use super::environment::{FUEL, MAX_OUTPUT};
use crate::text::files::FilesError;

/// Why there is no prompt. [`TemplateError::is_request`] tells whose fault it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The checkpoint has none; text can still be continued without one.
    #[error(
        "no chat template: chat_template.jinja and chat_template.json are missing, and tokenizer_config.json has no \
         `chat_template`"
    )]
    Missing,
    /// A file is not JSON of the expected shape.
    #[error("{detail}")]
    Files {
        /// Name of the file and what was found.
        detail: String,
    },
    /// Several templates, none of them called `default`.
    #[error("tokenizer_config.json: `chat_template` has {found}; expected one named `default`")]
    NoDefault {
        /// The names that are there.
        found: String,
    },
    /// The source is longer than any template.
    #[error("{file}: the chat template has {found} bytes, expected at most {limit}")]
    TooLong {
        /// Name of the file.
        file: &'static str,
        /// Bytes of the template.
        found: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The template is not Jinja.
    #[error("{file}: line {line} of the chat template: {detail}")]
    Syntax {
        /// Name of the file.
        file: &'static str,
        /// Line of the template, from 1.
        line: usize,
        /// What was found and expected.
        detail: String,
    },
    /// The template called `raise_exception`.
    #[error("the chat template refuses the messages: {message}")]
    Raised {
        /// The template's own words.
        message: String,
    },
    /// The template runs without end, or makes too much text on the way.
    #[error("the chat template took more than {FUEL} steps; hint: it loops, or the conversation is too long")]
    Fuel,
    /// The prompt is longer than any context.
    #[error("the chat template wrote more than {MAX_OUTPUT} bytes")]
    Output,
    /// An operation of the template failed.
    #[error("line {line} of the chat template: {detail}")]
    Render {
        /// Line of the template, from 1; 0 where it is not known.
        line: usize,
        /// What failed.
        detail: String,
    },
    /// A message is not as it should be.
    #[error("messages[{index}]{detail}")]
    Message {
        /// Which message, from 0.
        index: usize,
        /// The field, what was found and what was expected.
        detail: String,
    },
    /// A variable of the template that a request must not set.
    #[error("chat template variable `{name}` is set by the program; expected another name")]
    Reserved {
        /// The variable.
        name: String,
    },
    /// Lists and objects within each other without end.
    #[error("messages and tools are nested more than {limit} deep")]
    Depth {
        /// Levels allowed.
        limit: usize,
    },
}

/// The words of `raise_exception`, carried through the template engine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raise(pub(super) String);

impl TemplateError {
    /// Whether the request is at fault: the same template may render another one.
    pub fn is_request(&self) -> bool {
        match self {
            Self::Raised { .. }
            | Self::Fuel
            | Self::Output
            | Self::Render { .. }
            | Self::Message { .. }
            | Self::Reserved { .. }
            | Self::Depth { .. } => true,
            Self::Missing
            | Self::Files { .. }
            | Self::NoDefault { .. }
            | Self::TooLong { .. }
            | Self::Syntax { .. } => false,
        }
    }

    pub(super) fn files(error: &FilesError) -> Self {
        let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        Self::Files { detail: format!("{error}: {cause}") }
    }

    pub(super) fn render(error: &minijinja::Error) -> Self {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(link) = cause {
            if let Some(Raise(message)) = link.downcast_ref() {
                return Self::Raised { message: message.clone() };
            }
            if link.downcast_ref::<minijinja::Error>().is_some_and(|e| e.kind() == ErrorKind::OutOfFuel) {
                return Self::Fuel;
            }
            cause = link.source();
        }
        if error.kind() == ErrorKind::WriteFailure {
            return Self::Output;
        }
        Self::Render { line: error.line().unwrap_or(0), detail: describe(error) }
    }
}

/// Kind and detail without the engine's own place, which names no file of the user.
pub(super) fn describe(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}
