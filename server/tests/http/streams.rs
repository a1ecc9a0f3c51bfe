//! Streams of events.

use serde_json::{Value, json};

use crate::started::{Served, Setup, chat};

const PROMPT: &str = "Write the numbers from 1 to 20, separated by commas.";

#[test]
fn a_stream_is_the_answer_in_order() {
    let served = Served::start(Setup::default());
    let whole = served.chat(PROMPT, json!({"max_tokens": 48}));
    let kinds = [json!(null), json!({}), json!({"include_usage": false}), json!({"include_usage": true})];
    for options in kinds {
        let reply = served.chat(PROMPT, json!({"max_tokens": 48, "stream": true, "stream_options": options}));
        assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
        let (data, events) = (reply.data(), reply.events());
        assert_eq!(data.last(), Some(&"[DONE]"));
        assert_eq!(data.iter().filter(|data| **data == "[DONE]").count(), 1);
        assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
        assert_eq!(reply.streamed(), whole.content());
        let finishes: Vec<_> = events
            .iter()
            .filter_map(|event| event["choices"].get(0)?["finish_reason"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(finishes, [whole.json()["choices"][0]["finish_reason"].as_str().unwrap()]);
        for field in ["id", "created", "model", "object"] {
            assert!(events.iter().all(|event| event[field] == events[0][field]), "{field}");
        }
        let usages: Vec<_> = events.iter().filter(|event| !event["usage"].is_null()).collect();
        if options == json!({"include_usage": true}) {
            assert_eq!(usages, [events.last().unwrap()]);
            assert_eq!((&usages[0]["choices"], &usages[0]["usage"]), (&json!([]), &whole.json()["usage"]));
        } else {
            assert!(usages.is_empty());
            assert!(events.iter().all(|event| event["choices"].as_array().unwrap().len() == 1));
        }
        assert!(events.iter().any(|event| event["timings"]["draft_n"].is_number()));
    }
}

#[test]
fn several_tokens_share_a_chunk_and_logprobs_count_them() {
    let served = Served::start(Setup::default());
    let ask = json!({"max_tokens": 40, "logprobs": true, "top_logprobs": 1});
    let whole = served.chat(PROMPT, ask.clone()).json();
    let mut more = ask;
    more["stream"] = true.into();
    more["timings_per_token"] = true.into();
    let reply = served.chat(PROMPT, more);
    let events = reply.events();
    let entries: Vec<Value> = events
        .iter()
        .filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array())
        .flatten()
        .cloned()
        .collect();
    assert_eq!(&entries, whole["choices"][0]["logprobs"]["content"].as_array().unwrap());
    assert!(events.len() < entries.len(), "{} chunks for {} tokens", events.len(), entries.len());
    // Who watches sees every round.
    let rounds: Vec<_> =
        events.iter().filter_map(|event| event["timings"]["rounds"].as_array()).flatten().collect();
    let last = &events.iter().rev().find(|event| !event["timings"]["seed"].is_null()).unwrap()["timings"];
    assert_eq!(rounds.len() as u64, last["draft_rounds"].as_u64().unwrap());
    let accepted: u64 = rounds.iter().map(|round| round["accepted"].as_u64().unwrap()).sum();
    assert_eq!(accepted, last["draft_n_accepted"].as_u64().unwrap());
}

#[test]
fn texts_are_streamed_without_a_role() {
    let served = Served::start(Setup::default());
    let body = json!({"prompt": "import os", "max_tokens": 12, "temperature": 0});
    let whole = served.post("/v1/completions", &body).content();
    let mut streamed = body;
    streamed["stream"] = true.into();
    let reply = served.post("/v1/completions", &streamed);
    assert_eq!(reply.streamed(), whole);
    assert!(reply.events().iter().all(|event| event["object"] == "text_completion"));
    assert_eq!(reply.data().last(), Some(&"[DONE]"));
}

#[test]
fn silence_is_kept_alive() {
    let mut setup = Setup::default();
    setup.limits.parallel = 1;
    setup.http.keep_alive = std::time::Duration::from_millis(5);
    let served = Served::start(setup);
    let mut first = served.open(
        "/v1/chat/completions",
        &chat(PROMPT, json!({"stream": true, "max_tokens": 2000, "ignore_eos": true})),
    );
    let before = first.read_until("\"content\":\"");
    let mut waiting = served.open("/v1/chat/completions", &chat("Hi", json!({"stream": true})));
    let head = waiting.read_until("\n:\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("\"role\":\"assistant\""), "{head}");
    drop(first);
    let reply = waiting.rest(&head);
    assert_eq!(reply.streamed(), served.chat("Hi", json!({})).content());
    assert!(before.contains("text/event-stream"));
}
