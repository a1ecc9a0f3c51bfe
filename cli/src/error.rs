//! How errors are written, and which exit code they have.
//!
//! One line with what failed, a line for each cause, and a `hint:` where a fix is known.

use std::{borrow::Cow, fmt::Write as _, process::ExitCode};

use mlxcel_core::{
    Error, checkpoint::CheckpointError, family::StartError, speculative::AnswerError, text::TextError,
};

use crate::{flags, notes::to_stderr};

const FAILURE: u8 = 1;
/// A command line that cannot be served: a flag, its value, or the prompt is at fault.
pub(crate) const USAGE: u8 = 2;
/// As a shell reports SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;
/// As a shell reports SIGPIPE.
const READER_GONE: u8 = 141;

/// An end that is no news to the user: nothing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Quiet {
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// What went wrong is in the command's own report.
    #[error("the report says what is wrong")]
    Reported,
    /// Nobody reads the output any more.
    #[error("the reader of the output has gone")]
    ReaderGone,
}

/// A command line that cannot be served: a flag, its value, or the prompt is at fault.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(Cow<'static, str>);

impl Usage {
    /// Says what is at fault; a `hint: ` may follow in a line of its own.
    pub(crate) fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self(message.into())
    }
}

/// Found at the start: an answer would be made and lost.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("stdout is closed\nhint: it takes the answer: send it to a file, a pipe, or /dev/null")]
pub(crate) struct StdoutClosed;

/// Writes the error to stderr and gives the program's exit code.
pub(crate) fn exit(error: &anyhow::Error) -> ExitCode {
    if !error.is::<Quiet>() {
        to_stderr(&render(error));
    }
    ExitCode::from(code(error))
}

fn code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(Quiet::Interrupted) => return INTERRUPTED,
        Some(Quiet::ReaderGone) => return READER_GONE,
        Some(Quiet::Reported) => return FAILURE,
        None => {}
    }
    let usage = error.chain().any(|cause| {
        cause.is::<Usage>()
            || cause.is::<AnswerError>()
            || cause.is::<StartError>()
            || cause.downcast_ref().is_some_and(TextError::is_request)
            || matches!(
                cause.downcast_ref(),
                Some(Error::WidthOverLimit { .. } | Error::EmptyPrompt | Error::PromptTooLong { .. })
            )
    });
    if usage { USAGE } else { FAILURE }
}

/// The error, its causes and its hint, a line each.
pub(crate) fn render(error: &anyhow::Error) -> String {
    let mut text = String::new();
    let mut hint = None;
    let mut last = String::new();
    for (depth, cause) in error.chain().enumerate() {
        let message = match cause.downcast_ref() {
            Some(error) => flags::spelled(error),
            None => cause.to_string(),
        };
        let (message, own) = split_hint(&message);
        hint = own.map(str::to_owned).or_else(|| checkpoint_hint(cause)).or(hint);
        // Some messages end with their cause already.
        if depth > 0 && last.ends_with(message) {
            continue;
        }
        let label = if depth == 0 { "error" } else { "  caused by" };
        let _ = writeln!(text, "{label}: {message}");
        message.clone_into(&mut last);
    }
    if let Some(hint) = hint {
        let _ = writeln!(text, "hint: {hint}");
    }
    text
}

/// The error with its causes in one line, and its hint.
pub(crate) fn explained(error: &anyhow::Error) -> (String, Option<String>) {
    let text = render(error);
    let (mut causes, mut hint) = (Vec::new(), None);
    for line in text.lines() {
        match line.strip_prefix("hint: ") {
            Some(own) => hint = Some(own.to_owned()),
            None => causes.push(line.trim_start_matches("error: ").trim_start_matches("  caused by: ")),
        }
    }
    (causes.join(": "), hint)
}

/// Messages of the core carry their hint after the first line, or after a semicolon.
fn split_hint(message: &str) -> (&str, Option<&str>) {
    let split = message.split_once("\nhint: ").or_else(|| message.split_once("; hint: "));
    split.map_or((message, None), |(message, hint)| (message, Some(hint)))
}

fn checkpoint_hint(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    let own = cause.downcast_ref::<CheckpointError>();
    // `transparent` hides the checkpoint's error from the chain: it is the value, not the source.
    let inner = || match cause.downcast_ref() {
        Some(Error::Checkpoint(error)) => Some(error),
        _ => None,
    };
    own.or_else(inner)?.hint()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;
    use mlxcel_core::{sampling::SamplingSettings, speculative::AnswerSettings, text::TemplateError};

    fn with_context<E: std::error::Error + Send + Sync + 'static>(error: E) -> anyhow::Error {
        Err::<(), _>(error).context("cannot load the target models/x").unwrap_err()
    }

    #[test]
    fn causes_and_hints_have_a_line_each() {
        let missing =
            CheckpointError::MissingShard { file: "a.safetensors".into(), because: "the index".into() };
        insta::assert_snapshot!(render(&with_context(Error::from(missing))), @r"
        error: cannot load the target models/x
          caused by: a.safetensors: missing, expected because the index
        hint: the download may be incomplete: fetch the model again
        ");
        let width = StartError::Width { flag: "--draft-block-size", found: 17, limit: 16 };
        insta::assert_snapshot!(render(&with_context(width)), @r"
        error: cannot load the target models/x
          caused by: --draft-block-size 17 is over the limit of this drafter
        hint: use a width of 1 to 16
        ");
    }

    #[test]
    fn a_cause_that_was_said_is_not_said_again() {
        let source = std::io::Error::other("permission denied");
        let error = with_context(CheckpointError::Io { path: "a".into(), source });
        insta::assert_snapshot!(render(&error), @r"
        error: cannot load the target models/x
          caused by: a: permission denied
        ");
    }

    #[test]
    fn an_error_fits_a_row() {
        let missing =
            CheckpointError::MissingShard { file: "a.safetensors".into(), because: "the index".into() };
        let (what, hint) = explained(&with_context(Error::from(missing)));
        assert_eq!(
            what,
            "cannot load the target models/x: a.safetensors: missing, expected because the index"
        );
        assert_eq!(hint.as_deref(), Some("the download may be incomplete: fetch the model again"));
    }

    #[test]
    fn exit_codes_tell_kinds_apart() {
        let sampling = SamplingSettings { top_p: 0.0, ..Default::default() };
        let answer =
            AnswerSettings { sampling, stop: vec![], max_tokens: 1, min_tokens: 0, ignore_eos: false };
        let settings = answer.check(1).unwrap_err();
        let raised = TextError::from(TemplateError::Raised { message: "no".into() });
        for (error, expected) in [
            (with_context(settings), USAGE),
            (with_context(Error::WidthOverLimit { found: 17, limit: 16 }), USAGE),
            (with_context(StartError::NeedsDrafter { flag: "--draft-kind" }), USAGE),
            (with_context(Error::PromptTooLong { tokens: 9, context: 8 }), USAGE),
            (with_context(raised), USAGE),
            (with_context(TextError::from(TemplateError::Missing)), FAILURE),
            (with_context(Usage::new("no")), USAGE),
            (with_context(Error::EmptySegment), FAILURE),
            (with_context(Quiet::Interrupted), INTERRUPTED),
            (Quiet::ReaderGone.into(), READER_GONE),
            (Quiet::Reported.into(), FAILURE),
        ] {
            assert_eq!(code(&error), expected, "{error:#}");
        }
    }
}
