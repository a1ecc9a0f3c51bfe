//! Answers: from the engine's events to what clients read.

mod logprobs;
mod shape;
mod sse;
mod timings;
mod transcript;
mod whole;

use std::sync::Arc;

use axum::response::Response;
use mlxcel_core::{TokenId, text::TextStream};

use self::{shape::Envelope, timings::Timings, transcript::Transcript};
use crate::{app::App, error::ApiError, net::Peer, request::Common};

pub(crate) use shape::{Shape, now};

/// A request that is ready for the engine.
pub(crate) struct Job {
    /// Ids of the prompt.
    pub(crate) prompt: Vec<TokenId>,
    /// What makes the answer's text, at its start.
    pub(crate) stream: TextStream,
    pub(crate) common: Common,
    pub(crate) shape: Shape,
}

/// Hands the job to the engine and answers: as a stream at once, or as a whole when it is complete.
pub(crate) async fn answer(app: Arc<App>, peer: Option<Peer>, job: Job) -> Result<Response, ApiError> {
    let Job { prompt, stream, common, shape } = job;
    let prompt_tokens = prompt.len();
    let speculation = app.speculation(common.speculation);
    let request = common.settings.request(prompt, &app.text, &stream, 0, speculation);
    let seed = common.settings.sampling().seed();
    let events = app.engine.submit(request)?;
    let draft_family = app.engine.ready().and_then(|ready| Some(ready.drafter.as_ref()?.family));
    let making = Making {
        transcript: Transcript::new(Arc::clone(&app.text), stream, &common),
        envelope: Envelope::new(shape, app.model.id.clone()),
        timings: Timings::new(prompt_tokens, seed, draft_family),
    };
    if common.stream {
        Ok(sse::response(events, peer, making, &common, app.keep_alive))
    } else {
        whole::response(events, peer, making).await
    }
}

/// An answer that is being made.
struct Making {
    transcript: Transcript,
    envelope: Envelope,
    timings: Timings,
}
