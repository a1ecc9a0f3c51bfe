//! Bodies of requests: read within bounds of size and time.

use std::time::Duration;

use axum::{
    body::{Body, Bytes, HttpBody as _},
    extract::Request,
    http::{StatusCode, header},
};
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use crate::error::ApiError;

/// How much of a body that is too large is still taken in, so that a client that is sending can read the refusal: a connection
/// that is closed while bytes wait to be read is reset, and the answer may be lost with it.
const POLITE: usize = 256 << 20;

/// How long a client that was refused may pause while it sends what it announced.
const PAUSE: Duration = Duration::from_secs(2);

/// Bounds of bodies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyBounds {
    /// Bytes at most.
    pub(crate) most: usize,
    /// Time until all of it has come.
    pub(crate) time: Duration,
}

/// Reads the whole body of a request. One that is announced to be too large is refused before any of it is read; what the
/// client sends all the same is taken in beside the answer and thrown away, unless it waits to be told to send it.
pub(crate) async fn read(request: Request, bounds: BodyBounds) -> Result<Bytes, ApiError> {
    let waits = request.headers().contains_key(header::EXPECT);
    let mut body = request.into_body();
    let announced = body.size_hint().exact().unwrap_or(0);
    if announced > bounds.most as u64 {
        if !waits {
            tokio::spawn(async move {
                let _ = timeout(bounds.time, discard(&mut body)).await;
            });
        }
        return Err(too_large(bounds.most));
    }
    let late = || {
        let message = format!("the body did not come within {} s", bounds.time.as_secs());
        ApiError::status(StatusCode::REQUEST_TIMEOUT, message)
    };
    timeout(bounds.time, collect(body, bounds.most)).await.unwrap_or_else(|_| Err(late()))
}

fn too_large(most: usize) -> ApiError {
    let message = format!("the body has more than {most} bytes");
    ApiError::status(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// Takes in what comes without a pause, within bounds.
async fn discard(body: &mut Body) {
    let mut length = 0usize;
    while let Ok(Some(Ok(frame))) = timeout(PAUSE, body.frame()).await {
        length += frame.data_ref().map_or(0, Bytes::len);
        if length > POLITE {
            break;
        }
    }
}

async fn collect(mut body: Body, most: usize) -> Result<Bytes, ApiError> {
    let mut bytes = Vec::new();
    let mut length = 0usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::invalid(format!("the body broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length <= most {
            bytes.extend_from_slice(&data);
        } else {
            bytes = Vec::new();
            if length > POLITE {
                break;
            }
        }
    }
    if length <= most {
        return Ok(bytes.into());
    }
    Err(too_large(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_is_read_up_to_its_bound() {
        let bounds = BodyBounds { most: 4, time: Duration::from_secs(5) };
        assert_eq!(read(Request::new("abcd".into()), bounds).await, Ok(Bytes::from("abcd")));
        // Announced, and not.
        let parts = futures_util::stream::iter(["abc", "de"].map(Ok::<_, std::io::Error>));
        for body in [Body::from("abcde"), Body::from_stream(parts)] {
            let refused = read(Request::new(body), bounds).await.unwrap_err();
            assert_eq!(refused.json()["error"]["message"], "the body has more than 4 bytes");
        }
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_given_up() {
        let never = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
        let bounds = BodyBounds { most: 4, time: Duration::from_millis(10) };
        let refused = read(Request::new(Body::from_stream(never)), bounds).await.unwrap_err();
        assert!(refused.json()["error"]["message"].as_str().unwrap().contains("did not come"));
    }
}
