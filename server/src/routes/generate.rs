//! `/v1/chat/completions` and `/v1/completions`.

use std::sync::Arc;

use axum::{Extension, extract::State};
use mlxcel_core::{TokenId, text::SpecialTokens};

use super::{Answer, Shared, Whole, aside};
use crate::{
    answer::{self, Job, Shape},
    app::App,
    error::ApiError,
    net::Peer,
    request::{self, ChatBody, CompletionBody, Fields, PromptInput},
};

/// Answers a conversation.
pub(super) async fn chat(State(app): Shared, peer: Option<Extension<Peer>>, Whole(body): Whole) -> Answer {
    let from = Arc::clone(&app);
    let job = aside(move || chat_job(&from, &body)).await?;
    answer::answer(app, peer.map(|Extension(peer)| peer), job).await
}

/// Continues a text.
pub(super) async fn completion(
    State(app): Shared,
    peer: Option<Extension<Peer>>,
    Whole(body): Whole,
) -> Answer {
    let from = Arc::clone(&app);
    let job = aside(move || completion_job(&from, &body)).await?;
    answer::answer(app, peer.map(|Extension(peer)| peer), job).await
}

fn chat_job(app: &App, body: &[u8]) -> Result<Job, ApiError> {
    let object = request::object(body)?;
    let ChatBody { conversation, common } = ChatBody::read(&Fields::new(&object), app)?;
    let prompt = app.text.chat_prompt(conversation.request())?.ids;
    let stream = app.text.chat_stream(&prompt, common.settings.stops());
    Ok(Job { prompt, stream, common, shape: Shape::Chat })
}

fn completion_job(app: &App, body: &[u8]) -> Result<Job, ApiError> {
    let object = request::object(body)?;
    let CompletionBody { prompt, common } = CompletionBody::read(&Fields::new(&object), app)?;
    let prompt = match prompt {
        PromptInput::Text(text) => app.continued(&text)?,
        PromptInput::Ids(ids) => known(app, ids)?,
    };
    if prompt.is_empty() {
        return Err(ApiError::field("prompt", "is empty, expected at least one token"));
    }
    let stream = app.text.raw_stream(common.settings.stops(), SpecialTokens::Skip);
    Ok(Job { prompt, stream, common, shape: Shape::Completion })
}

/// Ids that the model has.
fn known(app: &App, ids: Vec<TokenId>) -> Result<Vec<TokenId>, ApiError> {
    match ids.iter().find(|&&id| !app.text.tokenizer.knows(id)) {
        Some(id) => Err(ApiError::field("prompt", format_args!("the model has no token {id}"))),
        None => Ok(ids),
    }
}
