//! Servers in this process.

use std::{
    borrow::Cow,
    net::SocketAddr,
    sync::{Arc, LazyLock, mpsc::channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mlxcel_core::{
    checkpoint::Checkpoint,
    engine::{EngineModels, Limits},
    exactness::Gate,
    family::{load_drafter, load_target},
    nn::Executor,
    sampling::{SamplingSettings, Vocabulary},
    speculative::width::{ConfidenceUse, SharedEvidence},
    text::{TextFiles, TextModel},
};
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;
use mlxcel_server::{Http, Model, ServeError, Server, Speculate};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::client::{Open, Reply};

static TEXT: LazyLock<Arc<TextModel>> = LazyLock::new(|| {
    let files = TextFiles::load(|name| {
        let file = mlxcel_demo::TARGET.iter().find(|(found, _)| *found == name);
        Ok(file.map(|(_, bytes)| Cow::Borrowed(*bytes)))
    });
    Arc::new(TextModel::load(&files.unwrap()).unwrap())
});

/// What a test changes of a server.
pub(crate) struct Setup {
    pub(crate) http: Http,
    pub(crate) limits: Limits,
    pub(crate) speculate: Speculate,
}

impl Default for Setup {
    fn default() -> Self {
        let http = Http { port: 0, ..Http::default() };
        Self { http, limits: Limits::default(), speculate: Speculate::Fixed(None) }
    }
}

/// The trained pair.
pub(crate) fn load_pair() -> mlxcel_core::Result<EngineModels> {
    let executor = Executor::detect()?;
    let target = load_target(Checkpoint::embedded(mlxcel_demo::TARGET)?, executor)?;
    let drafter = load_drafter(Checkpoint::embedded(mlxcel_demo::DRAFTER)?, target.as_ref(), executor)?;
    let spec = target.spec();
    let known = |id| TEXT.tokenizer.knows(id);
    let vocabulary = Arc::new(Vocabulary::new(spec.vocab, known, &spec.suppressed));
    let (gate, batched) = (Gate::unguarded().clone(), executor.is_row_exact());
    let evidence = SharedEvidence::default();
    Ok(EngineModels { target, drafter: Some(drafter), vocabulary, gate, evidence, batched })
}

/// A server that runs until it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError<mlxcel_core::Error>>>>,
}

impl Served {
    /// With the trained pair, once it is loaded.
    pub(crate) fn start(setup: Setup) -> Self {
        let (ready, is_ready) = channel();
        let served = Self::start_with(setup, load_pair, move || ready.send(()).unwrap());
        is_ready.recv().unwrap();
        served
    }

    /// As it is at once.
    pub(crate) fn start_with(
        setup: Setup,
        load: impl FnOnce() -> mlxcel_core::Result<EngineModels> + Send + 'static,
        on_ready: impl FnOnce() + Send + 'static,
    ) -> Self {
        let Setup { http, limits, speculate } = setup;
        let model = Model {
            name: "lfm2-demo".to_owned(),
            alias: Some("demo".to_owned()),
            bos: Some("<|startoftext|>".to_owned()),
            text: Arc::clone(&TEXT),
            defaults: SamplingSettings { temperature: 0.0, ..SamplingSettings::default() },
            max_tokens: None,
            speculate,
            confidence: ConfidenceUse::Auto,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = channel();
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let running = Server { http, model, limits }.start(load).await?;
                tell.send(running.address).unwrap();
                let stop = async {
                    let _ = stopped.await;
                };
                running.serve(stop, on_ready).await
            })
        };
        let thread = std::thread::spawn(body);
        Self { address: told.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    /// Tells it to end.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> Result<(), ServeError<mlxcel_core::Error>> {
        self.thread.take().unwrap().join().unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        Open::send(self.address, "GET", path, &[], b"").reply()
    }

    pub(crate) fn open(&self, path: &str, body: &Value) -> Open {
        let json = [("Content-Type", "application/json")];
        Open::send(self.address, "POST", path, &json, body.to_string().as_bytes())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.open(path, body).reply()
    }

    /// Asks the chat route; `more` is added to a short greedy request.
    pub(crate) fn chat(&self, text: &str, more: Value) -> Reply {
        self.post("/v1/chat/completions", &chat(text, more))
    }

    /// A counter or gauge of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let line = text.lines().find(|line| line.starts_with(&format!("mlxcel:{name} ")));
        line.unwrap_or_else(|| panic!("{name} in {text}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Waits until nothing runs and nothing waits.
    pub(crate) fn wait_until_idle(&self) {
        let start = Instant::now();
        while self.metric("num_requests_running") + self.metric("num_requests_waiting") > 0.0 {
            assert!(start.elapsed() < Duration::from_secs(20), "requests do not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A test that failed has said why already.
            let _ = thread.join();
        }
    }
}

/// A short greedy request, with more or other fields.
pub(crate) fn chat(text: &str, more: Value) -> Value {
    let mut body =
        json!({"messages": [{"role": "user", "content": text}], "max_tokens": 24, "temperature": 0});
    let Value::Object(more) = more else { panic!("no object: {more}") };
    body.as_object_mut().unwrap().extend(more);
    body
}

/// Why a server does not start.
pub(crate) fn refused(setup: Setup) -> ServeError<mlxcel_core::Error> {
    let Setup { http, limits, speculate } = setup;
    let model = Model {
        name: "none".to_owned(),
        alias: None,
        bos: None,
        text: Arc::clone(&TEXT),
        defaults: SamplingSettings::default(),
        max_tokens: None,
        speculate,
        confidence: ConfidenceUse::Auto,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match runtime.block_on(Server { http, model, limits }.start(load_pair)) {
        Ok(running) => panic!("it listens on {}", running.address),
        Err(error) => error,
    }
}
