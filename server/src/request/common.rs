//! What the chat and the completion route have in common.

use mlxcel_core::{
    Width,
    family::DrafterSpec,
    speculative::{AnswerError, CheckedAnswer},
};
use serde_json::Value;

use super::{Fields, refused, sampling};
use crate::{app::App, error::ApiError};

/// Whether and how wide a request wants to be speculated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// As the server does it.
    Default,
    /// Not at all.
    Off,
    /// Blocks of at most this many rows.
    AtMost(Width),
}

/// The part of a request that does not depend on its route.
pub(crate) struct Common {
    pub(crate) settings: CheckedAnswer,
    /// Alternatives per token, if log-probabilities are wanted.
    pub(crate) logprobs: Option<usize>,
    pub(crate) speculation: Wish,
    pub(crate) stream: bool,
    /// Whether a stream ends with a chunk that has the usage.
    pub(crate) include_usage: bool,
    /// Whether every chunk has timings and rounds.
    pub(crate) timings_per_token: bool,
}

impl Common {
    /// Reads and checks it. `max_tokens` is the cap where the request names none.
    pub(super) fn read(
        fields: &Fields<'_>,
        app: &App,
        logprobs: Option<usize>,
        max_tokens: usize,
    ) -> Result<Self, ApiError> {
        model(fields, app)?;
        refused::check(fields)?;
        let ready = app.ready()?;
        let mut settings = sampling::settings(fields, &app.defaults, &ready.vocabulary, max_tokens)?;
        settings.sampling.logprobs = logprobs;
        let settings = settings.check(ready.target.vocab).map_err(|error| named(&error))?;
        let stream = fields.flag("stream")?.unwrap_or(false);
        Ok(Self {
            settings,
            logprobs,
            speculation: speculation(fields, ready.drafter.as_ref())?,
            stream,
            include_usage: include_usage(fields)?,
            timings_per_token: fields.flag("timings_per_token")?.unwrap_or(false),
        })
    }
}

/// `default`, the model's id or its alias; absent is fine too.
fn model(fields: &Fields<'_>, app: &App) -> Result<(), ApiError> {
    match fields.text("model")? {
        None | Some("default") => Ok(()),
        Some(name) if app.model.answers_to(name) => Ok(()),
        Some(name) => Err(ApiError::no_such_model(name, &app.model.id)),
    }
}

/// The messages of the core begin with the setting's name.
fn named(error: &AnswerError) -> ApiError {
    let message = error.to_string();
    let name: String = message.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let rest = message[name.len()..].trim_start_matches([':', ' ']).to_owned();
    ApiError::field(&name, rest)
}

/// `stream_options` matters to a stream only, and is harmless elsewhere.
fn include_usage(fields: &Fields<'_>) -> Result<bool, ApiError> {
    let Some(options) = fields.object("stream_options")? else { return Ok(false) };
    Ok(Fields::within(options, "stream_options.").flag("include_usage")?.unwrap_or(false))
}

/// `"speculative": false`, or an object with `enabled` and `max_width`; a width beyond what the drafter was trained for is no
/// width.
fn speculation(fields: &Fields<'_>, drafter: Option<&DrafterSpec>) -> Result<Wish, ApiError> {
    const EXPECTED: &str = "true, false, or an object with \"enabled\" and \"max_width\"";
    let object = match fields.get("speculative") {
        None | Some(Value::Bool(true)) => return Ok(Wish::Default),
        Some(Value::Bool(false)) => return Ok(Wish::Off),
        Some(Value::Object(object)) => object,
        Some(other) => return Err(fields.wrong("speculative", EXPECTED, other)),
    };
    let inner = Fields::within(object, "speculative.");
    let width = match drafter.map(|drafter| drafter.trained_width.rows()) {
        Some(most) => inner.count_up_to("max_width", most, "the drafter's trained width")?,
        None => inner.count("max_width", 1)?,
    };
    if inner.flag("enabled")? == Some(false) {
        return Ok(Wish::Off);
    }
    Ok(width.and_then(Width::new).map_or(Wish::Default, Wish::AtMost))
}
