//! `/tokenize`, `/detokenize` and `/apply-template`.

use std::sync::Arc;

use axum::{Json, extract::State, response::IntoResponse as _};
use mlxcel_core::{TokenId, text::SpecialTokens};
use serde_json::{Value, json};

use super::{Answer, Shared, Whole, aside};
use crate::{
    error::ApiError,
    request::{Conversation, Fields, object},
};

/// Ids of `content`; with `add_special` as a raw prompt has them, with `parse_special` false all of it as plain text.
pub(super) async fn tokenize(State(app): Shared, Whole(body): Whole) -> Answer {
    let body = aside(move || {
        let object = object(&body)?;
        let fields = Fields::new(&object);
        let content =
            fields.text("content")?.ok_or_else(|| ApiError::field("content", "a text is needed"))?;
        let tokenizer = &app.text.tokenizer;
        let ids = if fields.flag("add_special")?.unwrap_or(false) {
            app.continued(content)?
        } else if fields.flag("parse_special")?.unwrap_or(true) {
            app.text.continued(content)?
        } else {
            tokenizer.encode_text(content).map_err(|error| ApiError::invalid(error.to_string()))?
        };
        let tokens: Vec<Value> = if fields.flag("with_pieces")?.unwrap_or(false) {
            let piece = |id: &TokenId| tokenizer.decode(&[*id], SpecialTokens::Keep);
            ids.iter().map(|id| json!({"id": id, "piece": piece(id)})).collect()
        } else {
            ids.iter().map(|id| id.0.into()).collect()
        };
        Ok(json!({"tokens": tokens}))
    })
    .await?;
    Ok(Json(body).into_response())
}

/// Text of `tokens`.
pub(super) async fn detokenize(State(app): Shared, Whole(body): Whole) -> Answer {
    let body = aside(move || {
        let object = object(&body)?;
        let fields = Fields::new(&object);
        let tokens =
            fields.list("tokens")?.ok_or_else(|| ApiError::field("tokens", "a list of ids is needed"))?;
        let id = |value: &Value| {
            let id = value.as_u64().and_then(|id| u32::try_from(id).ok()).map(TokenId);
            id.filter(|&id| app.text.tokenizer.knows(id))
                .ok_or_else(|| fields.wrong("tokens", "ids of the model's tokens", value))
        };
        let ids = tokens.iter().map(id).collect::<Result<Vec<_>, _>>()?;
        Ok(json!({"content": app.text.tokenizer.decode(&ids, SpecialTokens::Keep)}))
    })
    .await?;
    Ok(Json(body).into_response())
}

/// The prompt of a conversation, and how many tokens it has.
pub(super) async fn apply_template(State(app): Shared, Whole(body): Whole) -> Answer {
    let text = Arc::clone(&app.text);
    let body = aside(move || {
        let object = object(&body)?;
        let conversation = Conversation::read(&Fields::new(&object))?;
        let prompt = text.chat_prompt(conversation.request())?;
        Ok(json!({"prompt": prompt.text, "n_tokens": prompt.ids.len()}))
    })
    .await?;
    Ok(Json(body).into_response())
}
