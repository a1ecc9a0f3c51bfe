//! Clients that go while they wait for their turn.

use std::{
    sync::mpsc::channel,
    thread,
    time::{Duration, Instant},
};

use mlxcel_core::{
    Result, Width,
    engine::EngineModels,
    family::{Output, Segment, Target, TargetSpec},
    nn::{Embedding, Linear},
    state::SequenceState,
};
use serde_json::json;

use crate::started::{Served, Setup, chat, load_pair};

const CHAT: &str = "/v1/chat/completions";

/// A target that takes its time.
struct Slow(Box<dyn Target>);

impl Target for Slow {
    fn spec(&self) -> &TargetSpec {
        self.0.spec()
    }

    fn new_state(&self, slack: Width) -> SequenceState {
        self.0.new_state(slack)
    }

    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
        thread::sleep(Duration::from_millis(10));
        self.0.forward(segments)
    }

    fn embedding(&self) -> Embedding {
        self.0.embedding()
    }

    fn head(&self) -> Linear {
        self.0.head()
    }
}

fn wait_for(done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(15), "it did not come");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Nothing is written to a client that waits, so that nothing but looking at its connection tells that it has gone: its place is
/// free long before its turn comes.
#[test]
fn a_client_that_goes_while_it_waits_is_noticed() {
    let mut setup = Setup::default();
    setup.limits.parallel = 1;
    setup.http.keep_alive = Duration::from_hours(1);
    let (ready, is_ready) = channel();
    let load = || {
        let models = load_pair()?;
        Ok(EngineModels { target: Box::new(Slow(models.target)), ..models })
    };
    let served = Served::start_with(setup, load, move || ready.send(()).unwrap());
    is_ready.recv().unwrap();
    // 39 seconds and more.
    let body = |stream: bool| {
        chat("Hi", json!({"stream": stream, "speculative": false, "max_tokens": 3900, "ignore_eos": true}))
    };
    let mut running = served.open(CHAT, &body(true));
    running.read_until("\"content\":\"");
    for stream in [true, false] {
        let open = served.open(CHAT, &body(stream));
        wait_for(|| served.metric("num_requests_waiting") == 1.0);
        drop(open);
        wait_for(|| served.metric("num_requests_waiting") == 0.0);
        assert_eq!(
            served.metric("num_requests_running"),
            1.0,
            "the other one has ended, and nothing is shown"
        );
    }
    // One that may still read has its answer made for a while; that it was given up is no fault of the server.
    let open = served.open(CHAT, &body(false));
    wait_for(|| served.metric("num_requests_waiting") == 1.0);
    open.half_close();
    wait_for(|| served.get("/metrics").body.contains("http_responses_total{status=\"499\"} "));
    assert!(!served.get("/metrics").body.contains("status=\"500\""));
    drop(running);
    served.wait_until_idle();
    let text = served.get("/metrics").body;
    let aborted = text.lines().find(|line| line.contains("finished_reason=\"abort\"")).unwrap();
    assert!(aborted.ends_with(" 4"), "{aborted}");
}
