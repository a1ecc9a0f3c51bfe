//! Accepting connections and serving HTTP on them.

use std::{io, sync::Arc, time::Duration};

use axum::{Router, extract::Request, http::StatusCode};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};
use tower::ServiceExt as _;

use super::Peer;
use crate::{error::ApiError, metrics::Metrics};

/// Bytes of a request's head at most.
const HEAD: usize = 64 << 10;
/// Header fields at most.
const FIELDS: usize = 100;
/// What connections may still take to end once the server does.
const GOODBYE: Duration = Duration::from_secs(2);

/// Bounds of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connections {
    /// At once.
    pub(crate) most: usize,
    /// Time for a request's head, and for a connection to be idle.
    pub(crate) head: Duration,
    /// How long a write may make no progress.
    pub(crate) patience: Duration,
}

/// Serves connections until `end` is ready; then those that are there are ended in order.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Connections,
    metrics: Arc<Metrics>,
    end: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(bounds.most));
    let graceful = GracefulShutdown::new();
    tokio::pin!(end);
    loop {
        let accepted = async {
            // Beyond the bound, connections wait in the system's queue.
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            biased;
            () = &mut end => break,
            accepted = accepted => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                accept_failed(&error).await;
                continue;
            }
        };
        // Chunks are small and are to arrive at once.
        let _ = stream.set_nodelay(true);
        let peer = Peer::new(stream);
        let connection = graceful.watch(connection(&peer, router.clone(), bounds));
        let metrics = Arc::clone(&metrics);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("connection ended: {error}");
                // The library only closes.
                if error.is_timeout() && peer.refuse(&late(bounds.head)) {
                    metrics.response(StatusCode::REQUEST_TIMEOUT.as_u16());
                }
            }
            drop(place);
        });
    }
    drop(listener);
    if timeout(GOODBYE, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections that did not end are cut");
    }
}

/// The answer to a request whose head did not come in time.
fn late(time: Duration) -> Vec<u8> {
    let message = format!("the head of the request did not come within {} s", time.as_secs());
    let body = ApiError::status(StatusCode::REQUEST_TIMEOUT, message).json().to_string();
    let fields =
        format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close", body.len());
    format!("HTTP/1.1 408 Request Timeout\r\n{fields}\r\n\r\n{body}").into_bytes()
}

fn connection(
    peer: &Peer,
    router: Router,
    bounds: Connections,
) -> impl hyper_util::server::graceful::GracefulConnection<Error = hyper::Error> + use<> {
    let peer = peer.clone();
    let bytes = TokioIo::new(peer.stream(bounds.patience));
    let service = router.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        request
    });
    hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        // A client may close its half and still read the answer; `Peer` sees those that go.
        .half_close(true)
        .max_buf_size(HEAD)
        .max_headers(FIELDS)
        .serve_connection(bytes, TowerToHyperService::new(service))
}

/// Errors of one connection are its own; when the system has no room, it gets time.
async fn accept_failed(error: &io::Error) {
    let own = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::Interrupted];
    if !own.contains(&error.kind()) {
        tracing::warn!("cannot accept a connection: {error}");
        sleep(Duration::from_millis(100)).await;
    }
}
