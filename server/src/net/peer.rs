//! The other end of a connection.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

/// How long an answer that is not streamed is still made for a peer that sends no more. Such a peer may have closed its half
/// only, and then still reads; or it has gone.
const GRACE: Duration = Duration::from_secs(1);
/// How often a connection with unread requests is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// The other end of a connection, for whoever answers it.
#[derive(Clone, Debug)]
pub(crate) struct Peer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    socket: TcpStream,
    /// Whether the peer sent anything since it was last written to: the beginning of a request.
    heard: AtomicBool,
    /// Whether something waits to be written to it.
    behind: AtomicBool,
}

impl Peer {
    pub(super) fn new(socket: TcpStream) -> Self {
        let (heard, behind) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Arc::new(Shared { socket, heard, behind }))
    }

    /// Answers a peer that began a request and did not end its head in time, as far as the socket takes it at once; a peer
    /// that asked nothing is told nothing. Nobody else may write any more. Gives whether it was told.
    pub(super) fn refuse(&self, answer: &[u8]) -> bool {
        let asked = self.0.heard.load(Ordering::Relaxed) && !self.0.behind.load(Ordering::Relaxed);
        // It may be gone.
        asked && self.0.socket.try_write(answer).is_ok()
    }

    /// Waits until the peer has closed its half of the connection, or all of it.
    pub(crate) async fn sends_no_more(&self) {
        loop {
            match self.0.socket.peek(&mut [0]).await {
                Ok(0) | Err(_) => return,
                // A further request waits behind this one, and hides what follows it.
                Ok(_) => sleep(LOOK).await,
            }
        }
    }

    /// Waits until the peer has gone, for all that can be told without writing to it.
    pub(crate) async fn gone(&self) {
        self.sends_no_more().await;
        sleep(GRACE).await;
    }

    /// The connection's bytes, with a limit on how long a write may make no progress.
    pub(super) fn stream(&self, patience: Duration) -> PeerStream {
        PeerStream { peer: Arc::clone(&self.0), patience, stalled: Box::pin(sleep(patience)), waiting: false }
    }
}

/// The bytes of a connection. It shares the socket with a [`Peer`], which looks ahead while an answer is made.
pub(super) struct PeerStream {
    peer: Arc<Shared>,
    patience: Duration,
    stalled: Pin<Box<Sleep>>,
    /// Whether a write waits, and `stalled` runs.
    waiting: bool,
}

impl PeerStream {
    /// Whether a write that makes no progress has waited long enough.
    fn poll_patience(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if !self.waiting {
            self.waiting = true;
            self.stalled.as_mut().reset(Instant::now() + self.patience);
        }
        ready!(self.stalled.as_mut().poll(context));
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the peer reads nothing"))
    }

    fn poll_with(
        &mut self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.peer.heard.store(false, Ordering::Relaxed);
        self.peer.behind.store(true, Ordering::Relaxed);
        loop {
            match self.peer.socket.poll_write_ready(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return self.poll_patience(context).map(Err),
            }
            match write(&self.peer.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => {
                    self.peer.behind.store(false, Ordering::Relaxed);
                    self.waiting = false;
                    return Poll::Ready(other);
                }
            }
        }
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.peer.socket.poll_read_ready(context))?;
            match self.peer.socket.try_read(buffer.initialize_unfilled()) {
                Ok(read) => {
                    if read > 0 {
                        self.peer.heard.store(true, Ordering::Relaxed);
                    }
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_with(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_with(context, |stream| stream.try_write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = socket2::SockRef::from(&self.peer.socket);
        Poll::Ready(socket.shutdown(std::net::Shutdown::Write))
    }
}
