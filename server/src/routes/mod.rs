//! The routes.

mod generate;
mod health;
mod models;
mod page;
mod props;
mod text;

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    extract::{FromRequest, Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::{
    app::App,
    body::{self, BodyBounds},
    error::ApiError,
    guard::{Guard, guard},
};

/// What the routes answer with.
pub(crate) type Answer = Result<Response, ApiError>;

/// The state of all routes.
pub(crate) type Shared = State<Arc<App>>;

/// All routes behind the guard.
pub(crate) fn router(app: Arc<App>, bounds: BodyBounds, guarded: Guard, origins: &[String]) -> Router {
    let router = Router::new()
        .route("/", get(page::page))
        .route("/health", get(health::health))
        .route("/metrics", get(health::metrics))
        .route("/props", get(props::props))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{id}", get(models::one))
        .route("/v1/chat/completions", post(generate::chat))
        .route("/v1/completions", post(generate::completion))
        .route("/tokenize", post(text::tokenize))
        .route("/detokenize", post(text::detokenize))
        .route("/apply-template", post(text::apply_template))
        .fallback(unknown)
        .layer(axum::Extension(bounds))
        .layer(from_fn_with_state(Arc::clone(&app), tell))
        .layer(from_fn_with_state(Arc::new(guarded), guard))
        .with_state(app);
    match cors(origins) {
        Some(cors) => router.layer(cors),
        None => router,
    }
}

async fn unknown(request: Request) -> ApiError {
    ApiError::not_found(request.method().as_str(), request.uri().path())
}

/// Pages of these sites may read answers; without any, none may.
fn cors(origins: &[String]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let allowed = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()))
    };
    let layer = CorsLayer::new().allow_origin(allowed).allow_methods([Method::GET, Method::POST]);
    Some(layer.allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE]))
}

/// Counts responses, and gives those of the libraries the form of all errors.
async fn tell(State(app): Shared, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let status = response.status();
    app.metrics.response(status.as_u16());
    tracing::debug!(%method, path, status = status.as_u16(), "response");
    let ours = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if ours || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let message = match status {
        StatusCode::METHOD_NOT_ALLOWED => format!("{method} is not allowed here"),
        other => other.canonical_reason().unwrap_or("refused").to_owned(),
    };
    let mut told = ApiError::status(status, message).into_response();
    if let Some(allow) = response.headers().get(header::ALLOW) {
        told.headers_mut().insert(header::ALLOW, allow.clone());
    }
    told
}

/// A whole body, within the server's bounds; any content type will do.
pub(crate) struct Whole(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Whole {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let bounds = request.extensions().get::<BodyBounds>().copied();
        let bounds = bounds.ok_or_else(|| ApiError::internal("no bounds for bodies"))?;
        body::read(request, bounds).await.map(Self)
    }
}

/// Runs what may take long, such as the tokenizer on a large prompt, beside the connections.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(ApiError::internal(format!("internal error: {error}"))))
}
