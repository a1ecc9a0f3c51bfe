//! A server as a program: its runtime and its signals.

use std::net::SocketAddr;

use mlxcel_core::engine::EngineModels;

use crate::server::{ServeError, Server};

/// Threads beside the connections: for the tokenizer, and one that waits for the engine.
const ASIDE: usize = 5;
/// As a shell reports SIGINT.
const INTERRUPTED: i32 = 130;

/// Serves until SIGINT or SIGTERM; what is there is then finished, within the time for it. A second signal ends the program
/// at once. `on_listening` is called once the port is open, `on_ready` once the models are loaded.
///
/// # Errors
/// The port cannot be opened, the models cannot be loaded, or the engine ends by itself.
pub fn run<E: Send + 'static>(
    server: Server,
    load: impl FnOnce() -> Result<EngineModels, E> + Send + 'static,
    on_listening: impl FnOnce(SocketAddr),
    on_ready: impl FnOnce(),
) -> Result<(), ServeError<E>> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(ASIDE).build()?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let running = server.start(load).await?;
        on_listening(running.address);
        let stop = async move {
            signals.next().await;
            tokio::spawn(async move {
                signals.next().await;
                std::process::exit(INTERRUPTED);
            });
        };
        running.serve(stop, on_ready).await
    });
    // A tokenizer that still works for a client that has gone is not waited for.
    runtime.shutdown_background();
    outcome
}

/// The signals that ask a program to end.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
