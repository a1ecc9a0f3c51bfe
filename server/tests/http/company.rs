//! Requests among others.

use mlxcel_server::Speculate;
use serde_json::{Value, json};

use crate::started::{Served, Setup, chat};

/// Requests of all kinds.
fn bodies() -> Vec<Value> {
    let long = "The quick brown fox jumps over the lazy dog. ".repeat(60);
    vec![
        chat("What is a hash table?", json!({"max_tokens": 60, "logprobs": true, "top_logprobs": 2})),
        chat(&long, json!({"max_tokens": 40})),
        chat("Write a haiku.", json!({"temperature": 0.9, "seed": 4, "max_tokens": 50})),
        chat("def f(x):", json!({"speculative": false, "max_tokens": 50})),
        chat("Hello", json!({"max_tokens": 3})),
        chat("Count.", json!({"stop": ["3"], "max_tokens": 50, "speculative": {"max_width": 2}})),
        chat(&long[..900], json!({"temperature": 0.7, "top_p": 0.9, "seed": 9, "max_tokens": 30})),
        chat("import os", json!({"frequency_penalty": 1.0, "max_tokens": 40})),
    ]
}

fn kept(mut json: Value) -> Value {
    assert!(json["choices"][0]["message"]["content"].is_string(), "{json}");
    json!([json["choices"].take(), json["usage"].take()])
}

#[test]
fn answers_are_the_same_in_any_company_at_any_width() {
    for speculate in [Speculate::Fixed(None), Speculate::Adaptive(None)] {
        let mut setup = Setup { speculate, ..Setup::default() };
        setup.limits.parallel = 8;
        in_any_company(&Served::start(setup));
    }
}

fn in_any_company(served: &Served) {
    let bodies = bodies();
    let alone: Vec<_> =
        bodies.iter().map(|body| kept(served.post("/v1/chat/completions", body).json())).collect();
    for _ in 0..2 {
        let open: Vec<_> = bodies.iter().map(|body| served.open("/v1/chat/completions", body)).collect();
        for (open, alone) in open.into_iter().zip(&alone) {
            assert_eq!(&kept(open.reply().json()), alone);
        }
    }
}

#[test]
fn a_full_server_says_when_to_come_back() {
    let mut setup = Setup::default();
    (setup.limits.parallel, setup.limits.queue) = (1, 0);
    let served = Served::start(setup);
    let long = chat("Hi", json!({"stream": true, "max_tokens": 3000, "ignore_eos": true}));
    let mut first = served.open("/v1/chat/completions", &long);
    // The role comes before the engine has looked at the request.
    first.read_until("\"content\":\"");
    while served.metric("num_requests_running") == 0.0 {}
    for stream in [false, true] {
        let refused = served.chat("Hi", json!({"stream": stream}));
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
        assert_eq!(refused.error(), "1 requests run and 0 wait: no place is left");
    }
    drop(first);
    served.wait_until_idle();
    assert_eq!(served.chat("Hi", json!({})).status, 200);
    assert_eq!(served.metric("requests_rejected_total"), 2.0);
}
