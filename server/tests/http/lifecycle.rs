//! Start, loading, draining, end.

use std::{sync::mpsc::channel, time::Duration};

use mlxcel_core::Error;
use mlxcel_server::{BindError, ServeError};
use serde_json::json;

use crate::started::{Served, Setup, chat, load_pair};

const CHAT: &str = "/v1/chat/completions";

#[test]
fn while_the_models_load_the_server_says_so() {
    let (go, wait) = channel::<()>();
    let (ready, is_ready) = channel();
    let load = move || {
        wait.recv().unwrap();
        load_pair()
    };
    let served = Served::start_with(Setup::default(), load, move || ready.send(()).unwrap());
    let health = served.get("/health");
    assert_eq!((health.status, &health.json()["status"]), (503, &"loading model".into()));
    let early = served.chat("Hi", json!({}));
    assert_eq!((early.status, early.header("retry-after")), (503, Some("1")));
    assert_eq!(early.error(), "the model is still loading");
    assert_eq!(served.get("/v1/models").status, 200);
    go.send(()).unwrap();
    is_ready.recv().unwrap();
    // Nothing is gated here.
    assert_eq!(served.get("/health").json(), json!({"status": "ok", "exactness": null}));
    assert_eq!(served.chat("Hi", json!({})).status, 200);
}

#[test]
fn models_that_cannot_be_loaded_end_the_server() {
    let mut served = Served::start_with(Setup::default(), || Err(Error::EmptyPrompt), || {});
    assert!(matches!(served.ended(), Err(ServeError::Load(Error::EmptyPrompt))));
}

#[test]
fn a_load_that_panics_ends_the_server() {
    let mut served = Served::start_with(Setup::default(), || panic!("planted panic"), || {});
    assert!(matches!(served.ended(), Err(ServeError::Engine)));
}

#[test]
fn answers_under_way_are_finished_before_the_end() {
    let mut served = Served::start(Setup::default());
    let body = chat("Hi", json!({"stream": true, "max_tokens": 600, "ignore_eos": true}));
    let mut open = served.open(CHAT, &body);
    let before = open.read_until("\"content\":\"");
    served.stop();
    // From now on it takes nothing new.
    while served.get("/health").status == 200 {}
    let health = served.get("/health");
    if health.status == 503 {
        assert_eq!(health.json()["status"], "draining");
        let late = served.chat("Hi", json!({}));
        assert_eq!((late.status, late.error()), (503, "the server is shutting down".to_owned()));
    }
    let reply = open.rest(&before);
    assert_eq!(reply.data().last(), Some(&"[DONE]"));
    assert_eq!(reply.events().last().unwrap()["choices"][0]["finish_reason"], "length");
    served.ended().unwrap();
}

#[test]
fn answers_that_take_too_long_are_cut_with_a_word() {
    let mut setup = Setup::default();
    setup.http.drain = Duration::from_millis(30);
    let mut served = Served::start(setup);
    let body = chat(
        "Hi",
        json!({"stream": true, "max_tokens": 3900, "ignore_eos": true, "logprobs": true, "top_logprobs": 20}),
    );
    let mut open = served.open(CHAT, &body);
    let before = open.read_until("\"content\":\"");
    served.stop();
    let reply = open.rest(&before);
    assert!(!reply.data().contains(&"[DONE]"), "it was not whole");
    let events = reply.events();
    let error = &events.last().unwrap()["error"];
    assert_eq!(error["message"], "the server is shutting down");
    served.ended().unwrap();
}

#[test]
fn addresses_that_cannot_be_listened_on() {
    let served = Served::start(Setup::default());
    let refusal = |host: &str, port: u16| {
        let mut setup = Setup::default();
        (setup.http.host, setup.http.port) = (host.to_owned(), port);
        crate::started::refused(setup)
    };
    let in_use = refusal("127.0.0.1", served.address.port());
    assert!(matches!(in_use, ServeError::Bind(BindError::InUse { .. })), "{in_use}");
    assert!(in_use.to_string().contains("in use\nhint: choose another one with --port"), "{in_use}");
    let foreign = refusal("192.0.2.1", 0);
    assert!(matches!(foreign, ServeError::Bind(BindError::Refused { .. })), "{foreign}");
    let odd = refusal("no such host", 0);
    assert!(matches!(odd, ServeError::Bind(BindError::Host { .. })), "{odd}");
}
