//! `/props`: what is served, and how.

use axum::{Json, extract::State, response::IntoResponse as _};
use mlxcel_core::family::DraftKind;
use serde_json::{Value, json};

use super::{Answer, Shared};
use crate::app::Speculate;

/// Properties of the server, in the words of llama.cpp where it has some.
pub(super) async fn props(State(app): Shared) -> Answer {
    let ready = app.ready()?;
    let defaults = &app.defaults;
    let speculation = match (&ready.drafter, app.speculate) {
        (Some(drafter), speculate) => json!({
            "draft_kind": DraftKind::Block.name(),
            "draft_family": drafter.family,
            "trained_width": drafter.trained_width.rows(),
            "widths": match speculate {
                Speculate::Off => "off",
                Speculate::Fixed(_) => "fixed",
                Speculate::Adaptive(_) => "adaptive",
            },
            "width": match speculate {
                Speculate::Off => 1,
                Speculate::Fixed(width) => width.unwrap_or(drafter.default_width).rows(),
                Speculate::Adaptive(ceiling) => ceiling.unwrap_or(drafter.trained_width).rows(),
            },
        }),
        (None, _) => Value::Null,
    };
    let body = json!({
        "model_alias": app.model.id,
        "total_slots": ready.limits.parallel,
        "queue": ready.limits.queue,
        "n_ctx": ready.context,
        "target_family": ready.target.family,
        "vocab_size": ready.target.vocab,
        "chat_template": app.text.template.is_ok(),
        "eos_token_ids": app.text.eos.iter().map(|id| id.0).collect::<Vec<_>>(),
        "speculation": speculation,
        "exactness": ready.gate.view(),
        "default_generation_settings": {
            "temperature": defaults.temperature,
            "top_k": defaults.top_k,
            "top_p": defaults.top_p,
            "min_p": defaults.min_p,
            "repetition_penalty": defaults.repetition_penalty,
            "presence_penalty": defaults.presence_penalty,
            "frequency_penalty": defaults.frequency_penalty,
        },
        "build_info": concat!("mlxcel ", env!("CARGO_PKG_VERSION")),
    });
    Ok(Json(body).into_response())
}
