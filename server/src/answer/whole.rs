//! An answer as one JSON object.

use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use mlxcel_core::engine::{Event, Events};
use serde_json::Value;

use super::{Making, timings::usage, transcript::Delta};
use crate::{error::ApiError, net::Peer};

/// Waits for the whole answer. A peer that goes meanwhile cancels it.
pub(super) async fn response(
    mut events: Events,
    peer: Option<Peer>,
    mut making: Making,
) -> Result<Response, ApiError> {
    let mut all = Delta::default();
    let mut letters = 0;
    let mut logprobs = false;
    let gone = async {
        match &peer {
            Some(peer) => peer.gone().await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(gone);
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => event,
            // Nobody will read this.
            () = &mut gone => return Err(ApiError::client_gone()),
        };
        match event {
            Some(Event::Started { waited }) => making.timings.started(waited),
            Some(Event::Tokens { decisions, round }) => {
                making.timings.tokens(decisions.len(), round);
                logprobs |= decisions.iter().any(|decision| decision.logprobs.is_some());
                let delta = making.transcript.take(decisions, letters);
                letters += delta.content.chars().count();
                all.append(delta);
            }
            Some(Event::Finished { finish, report }) => {
                all.append(making.transcript.finish());
                let tokenizer = &making.transcript.text.tokenizer;
                let mut body = making.envelope.whole(tokenizer, &all, finish.reason(), logprobs);
                body.insert("usage".to_owned(), usage(&report));
                body.insert("timings".to_owned(), making.timings.complete(&report, &[]));
                return Ok(Json(Value::Object(body)).into_response());
            }
            Some(Event::Failed(error)) => return Err(error.into()),
            None => return Err(ApiError::internal("the answer broke off")),
        }
    }
}
