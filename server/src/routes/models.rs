//! `/v1/models`.

use axum::{
    Json,
    extract::{Path, State},
    response::IntoResponse as _,
};
use serde_json::{Value, json};

use super::{Answer, Shared};
use crate::{app::App, error::ApiError};

/// The one model that is served.
pub(super) async fn list(State(app): Shared) -> Answer {
    Ok(Json(json!({"object": "list", "data": [card(&app)]})).into_response())
}

/// The model by its name.
pub(super) async fn one(State(app): Shared, Path(id): Path<String>) -> Answer {
    if id == "default" || app.model.answers_to(&id) {
        Ok(Json(card(&app)).into_response())
    } else {
        Err(ApiError::no_such_model(&id, &app.model.id))
    }
}

fn card(app: &App) -> Value {
    let context = app.engine.ready().map(|ready| ready.context);
    json!({
        "id": app.model.id,
        "object": "model",
        "created": app.model.created,
        "owned_by": "mlxcel",
        "max_model_len": context,
    })
}
