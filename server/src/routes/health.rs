//! `/health` and `/metrics`.

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use mlxcel_core::engine::Phase;
use serde_json::json;

use super::{Answer, Shared};
use crate::error::ApiError;

/// Whether requests are served now.
pub(super) async fn health(State(app): Shared) -> Response {
    let (status, word, message) = match app.engine.phase() {
        Phase::Ready => {
            let exactness = app.engine.ready().and_then(|ready| ready.gate.view());
            return Json(json!({"status": "ok", "exactness": exactness})).into_response();
        }
        Phase::Loading => (StatusCode::SERVICE_UNAVAILABLE, "loading model", "the model is still loading"),
        Phase::Draining => (StatusCode::SERVICE_UNAVAILABLE, "draining", "the server is shutting down"),
        Phase::Ended => (StatusCode::SERVICE_UNAVAILABLE, "ended", "the engine has ended"),
    };
    let mut body = ApiError::unavailable(message).json();
    body["status"] = word.into();
    (status, Json(body)).into_response()
}

/// Counters and histograms.
pub(super) async fn metrics(State(app): Shared) -> Answer {
    let text = app.metrics.text().map_err(|error| ApiError::internal(error.to_string()))?;
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    Ok((kind, text).into_response())
}
