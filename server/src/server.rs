//! From a configuration to a server that runs, and its end.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use mlxcel_core::{
    engine::{Engine, EngineModels, Limits, Starting},
    sampling::SamplingSettings,
    speculative::width::ConfidenceUse,
    text::TextModel,
};
use tokio::{sync::watch, task::spawn_blocking, time::timeout};

use crate::{
    answer::now,
    app::{App, ModelNames, Speculate},
    body::BodyBounds,
    guard::Guard,
    metrics::Metrics,
    net::{self, BindError, Connections},
    routes::router,
};

/// How the server talks to its clients.
#[derive(Clone, Debug)]
pub struct Http {
    /// Name or address to listen on.
    pub host: String,
    /// Port; 0 takes a free one.
    pub port: u16,
    /// Keys, one of which every request must have; empty for none.
    pub keys: Vec<String>,
    /// Sites whose pages may ask; `*` for all.
    pub origins: Vec<String>,
    /// Connections at once.
    pub connections: usize,
    /// Bytes of a body.
    pub body: usize,
    /// Time for a request's head, for its body, and for a connection to be idle.
    pub request_time: Duration,
    /// A comment keeps a stream alive after this long a silence.
    pub keep_alive: Duration,
    /// How long a write may make no progress.
    pub patience: Duration,
    /// How long answers may still take once the server is told to end.
    pub drain: Duration,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 8080,
            keys: Vec::new(),
            origins: Vec::new(),
            connections: 512,
            body: 16 << 20,
            request_time: Duration::from_secs(30),
            keep_alive: Duration::from_secs(10),
            patience: Duration::from_mins(1),
            drain: Duration::from_secs(30),
        }
    }
}

/// What is served.
#[derive(Debug)]
pub struct Model {
    /// The name that the checkpoint has by itself, no path of this machine.
    pub name: String,
    /// Another name that it is listed by.
    pub alias: Option<String>,
    /// The token that starts every text, if there is one.
    pub bos: Option<String>,
    /// Text in and out.
    pub text: Arc<TextModel>,
    /// Settings of requests that leave them open.
    pub defaults: SamplingSettings,
    /// Tokens of an answer where a request names no cap.
    pub max_tokens: Option<usize>,
    /// How wide to speculate where a request does not say.
    pub speculate: Speculate,
    /// What is made of a drafter's confidence where blocks are as wide as pays.
    pub confidence: ConfidenceUse,
}

/// Why a server ended that was not told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError<E> {
    /// It cannot listen.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The models cannot be loaded.
    #[error("the models cannot be loaded")]
    Load(E),
    /// The system refuses.
    #[error("the server cannot start")]
    System(#[from] std::io::Error),
    /// The engine's thread has ended.
    #[error("the engine has ended by itself: a fault of the program")]
    Engine,
}

/// A server that is configured.
pub struct Server {
    /// Its side towards clients.
    pub http: Http,
    /// What it serves.
    pub model: Model,
    /// The engine's bounds.
    pub limits: Limits,
}

/// A server that listens. The models may still be loading.
pub struct Running<E> {
    /// Where it listens.
    pub address: SocketAddr,
    starting: Starting<E>,
    listener: tokio::net::TcpListener,
    router: axum::Router,
    connections: Connections,
    metrics: Arc<Metrics>,
    drain: Duration,
}

impl Server {
    /// Listens, and starts to load the models with `load` on the engine's thread.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start<E: Send + 'static>(
        self,
        load: impl FnOnce() -> Result<EngineModels, E> + Send + 'static,
    ) -> Result<Running<E>, ServeError<E>> {
        let Self { http, model, limits } = self;
        let (listener, address) = net::bind(&http.host, http.port).await?;
        let metrics = Arc::new(Metrics::new());
        let observer = Arc::clone(&metrics);
        let starting = Engine::start(limits, observer, load)?;
        let app = App {
            engine: starting.engine.clone(),
            bos: model.bos,
            text: model.text,
            keep_alive: http.keep_alive,
            model: ModelNames {
                id: model.alias.unwrap_or_else(|| model.name.clone()),
                own: model.name,
                created: now(),
            },
            defaults: model.defaults,
            max_tokens: model.max_tokens,
            speculate: model.speculate,
            confidence: model.confidence,
            metrics: Arc::clone(&metrics),
        };
        let bounds = BodyBounds { most: http.body, time: http.request_time };
        let guard = Guard::new(http.keys, http.origins.clone(), http.host, address.ip());
        let router = router(Arc::new(app), bounds, guard, &http.origins);
        let connections =
            Connections { most: http.connections, head: http.request_time, patience: http.patience };
        Ok(Running { address, starting, listener, router, connections, metrics, drain: http.drain })
    }
}

impl<E: Send + 'static> Running<E> {
    /// Serves until `stop` is ready; then what is there is finished, within the time for it. `on_ready` is called once the
    /// models are loaded.
    ///
    /// # Errors
    /// The models cannot be loaded, or the engine ends by itself.
    pub async fn serve(
        self,
        stop: impl Future<Output = ()>,
        on_ready: impl FnOnce(),
    ) -> Result<(), ServeError<E>> {
        let Self { starting, listener, router, connections, metrics, drain, .. } = self;
        let Starting { engine, loaded, thread } = starting;
        let mut thread = spawn_blocking(move || thread.join());
        let (end, mut ended) = watch::channel(false);
        let serving = tokio::spawn(net::serve(listener, router, connections, metrics, async move {
            let _ = ended.wait_for(|ended| *ended).await;
        }));
        tokio::pin!(stop);
        let outcome = async {
            let early = tokio::select! {
                loaded = loaded => match loaded {
                    Ok(Ok(())) => false,
                    Ok(Err(error)) => return Err(ServeError::Load(error)),
                    Err(_) => return Err(ServeError::Engine),
                },
                () = &mut stop => true,
            };
            if !early {
                on_ready();
                tokio::select! {
                    () = &mut stop => {}
                    _ = &mut thread => return Err(ServeError::Engine),
                }
            }
            tracing::info!(requests = engine.requests(), "draining");
            engine.drain();
            if timeout(drain, &mut thread).await.is_err() {
                tracing::warn!("answers that did not end within {} s are cut", drain.as_secs());
                engine.abort();
                let _ = timeout(drain, &mut thread).await;
            }
            Ok(())
        }
        .await;
        let _ = end.send(true);
        let _ = serving.await;
        outcome
    }
}
