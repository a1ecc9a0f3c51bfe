//! Bodies of requests: read within bounds of size and time.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::StatusCode,
};
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use crate::error::ApiError;

/// How much of a body that is too large is still taken in, so that a client that is sending can read the refusal.
const POLITE: usize = 256 << 20;

/// Bounds of bodies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyBounds {
    /// Bytes at most.
    pub(crate) most: usize,
    /// Time until all of it has come.
    pub(crate) time: Duration,
}

/// Reads a whole body.
pub(crate) async fn read(body: Body, bounds: BodyBounds) -> Result<Bytes, ApiError> {
    let late = || {
        let message = format!("the body did not come within {} s", bounds.time.as_secs());
        ApiError::status(StatusCode::REQUEST_TIMEOUT, message)
    };
    timeout(bounds.time, collect(body, bounds.most)).await.unwrap_or_else(|_| Err(late()))
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
    let message = format!("the body has more than {most} bytes");
    Err(ApiError::status(StatusCode::PAYLOAD_TOO_LARGE, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_is_read_up_to_its_bound() {
        let bounds = BodyBounds { most: 4, time: Duration::from_secs(5) };
        assert_eq!(read(Body::from("abcd"), bounds).await, Ok(Bytes::from("abcd")));
        let refused = read(Body::from("abcde"), bounds).await.unwrap_err();
        assert_eq!(refused.json()["error"]["message"], "the body has more than 4 bytes");
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_given_up() {
        let never = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
        let bounds = BodyBounds { most: 4, time: Duration::from_millis(10) };
        let refused = read(Body::from_stream(never), bounds).await.unwrap_err();
        assert!(refused.json()["error"]["message"].as_str().unwrap().contains("did not come"));
    }
}
