//! Errors as clients know them: `{"error": {"message", "type", "param", "code"}}`.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use mlxcel_core::{
    engine::{EngineError, SubmitError},
    text::{TemplateError, TextError},
};
use serde_json::{Value, json};

/// Seconds after which a client may try again when all places are taken.
const RETRY_AFTER: u32 = 1;

/// A request that is not served, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
    /// The field that is at fault.
    param: Option<String>,
    code: Option<&'static str>,
    retry_after: Option<u32>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        let message = message.into().replace("\nhint: ", "; hint: ").replace('\n', " ");
        Self { status, kind, message, param: None, code: None, retry_after: None }
    }

    /// The request as a whole cannot be served.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// A field has a value that cannot be served; the message begins with its name.
    pub(crate) fn field(name: &str, what: impl std::fmt::Display) -> Self {
        Self { param: Some(name.to_owned()), ..Self::invalid(format!("{name}: {what}")) }
    }

    /// A field asks for something that is not built and would change the answer.
    pub(crate) fn unsupported(name: &str, what: &str) -> Self {
        let code = Some("unsupported_parameter");
        Self { code, ..Self::field(name, format_args!("{what} is not supported by this server")) }
    }

    /// No such route.
    pub(crate) fn not_found(method: &str, path: &str) -> Self {
        let message = format!("{method} {} is not known here", short(path));
        Self::new(StatusCode::NOT_FOUND, "not_found_error", message)
    }

    /// No such model.
    pub(crate) fn no_such_model(found: &str, served: &str) -> Self {
        let message =
            format!("model: {:?} is not served here, expected {served:?} or \"default\"", short(found));
        let error = Self::new(StatusCode::NOT_FOUND, "invalid_request_error", message);
        Self { param: Some("model".to_owned()), code: Some("model_not_found"), ..error }
    }

    /// A status that needs no more words than it has.
    pub(crate) fn status(status: StatusCode, message: impl Into<String>) -> Self {
        let kind = match status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        };
        Self::new(status, kind, message)
    }

    /// The server cannot serve it now.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable_error", message);
        Self { retry_after: Some(RETRY_AFTER), ..error }
    }

    /// The client has gone and reads no answer: for the counts only. Proxies use this number for it.
    pub(crate) fn client_gone() -> Self {
        let status = StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST);
        Self::new(status, "invalid_request_error", "the client has gone")
    }

    /// A fault of the server.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    }

    /// As clients read it.
    pub(crate) fn json(&self) -> Value {
        json!({"error": {
            "message": self.message, "type": self.kind, "param": self.param, "code": self.code,
        }})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.json())).into_response();
        if self.status == StatusCode::PAYLOAD_TOO_LARGE {
            // What is left of the body is not looked at.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let message = error.to_string();
        match error {
            SubmitError::Loading | SubmitError::Stopping => Self::unavailable(message),
            SubmitError::Full { .. } => {
                let error = Self::status(StatusCode::TOO_MANY_REQUESTS, message);
                Self { retry_after: Some(RETRY_AFTER), ..error }
            }
            SubmitError::Request(mlxcel_core::Error::PromptTooLong { .. }) => {
                Self { code: Some("context_length_exceeded"), ..Self::invalid(message) }
            }
            SubmitError::Memory { .. } | SubmitError::Request(_) => Self::invalid(message),
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Stopped => Self::unavailable(error.to_string()),
            EngineError::SlowReader { .. } => Self::status(StatusCode::REQUEST_TIMEOUT, error.to_string()),
            EngineError::Failed { .. } | EngineError::Panicked { .. } => Self::internal(error.to_string()),
        }
    }
}

impl From<TextError> for ApiError {
    fn from(error: TextError) -> Self {
        let message = error.to_string();
        match error {
            TextError::Template(TemplateError::Message { .. }) => {
                Self { param: Some("messages".to_owned()), ..Self::invalid(message) }
            }
            TextError::Template(TemplateError::Reserved { .. }) => {
                Self { param: Some("chat_template_kwargs".to_owned()), ..Self::invalid(message) }
            }
            // A broken template is no fault of the request, and no request will get past it.
            TextError::TooLong { .. } => {
                Self { code: Some("context_length_exceeded"), ..Self::invalid(message) }
            }
            TextError::Template(_) | TextError::Tokenizer(_) | TextError::Eos(_) | TextError::Files(_) => {
                Self::invalid(message)
            }
        }
    }
}

/// Enough of a client's text to recognise it in a message.
pub(crate) fn short(text: &str) -> String {
    const LETTERS: usize = 60;
    let mut short: String = text.chars().take(LETTERS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
