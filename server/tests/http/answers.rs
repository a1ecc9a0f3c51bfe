//! Whole answers: their fields, and that speculation changes none of them.

use serde_json::{Value, json};

use crate::started::{Served, Setup};

const PROMPT: &str = "What is a hash table?";

#[test]
fn an_answer_has_what_clients_read() {
    let served = Served::start(Setup::default());
    let reply = served.chat(PROMPT, json!({"seed": 7}));
    assert_eq!(reply.status, 200);
    let mut json = reply.json();
    assert!(json["id"].as_str().unwrap().starts_with("chatcmpl-"));
    let timings = json["timings"].take();
    for field in ["id", "created"] {
        json[field] = "…".into();
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap());
    let names: Vec<_> = timings.as_object().unwrap().keys().cloned().collect();
    insta::assert_snapshot!(names.join(" "));
    assert_eq!(timings["seed"], 7);
    assert_eq!((&timings["draft_kind"], &timings["draft_decline"]), (&"dflash".into(), &Value::Null));
    assert_eq!(timings["predicted_n"], json["usage"]["completion_tokens"]);
    let sum = |field: &str| {
        timings[field].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(timings["draft_n"], sum("draft_n_per_position"));
    assert_eq!(timings["draft_n_accepted"], sum("draft_n_accepted_per_position"));
    let rounds = timings["draft_rounds"].as_u64().unwrap();
    assert_eq!(timings["predicted_n"], 1 + rounds + timings["draft_n_accepted"].as_u64().unwrap());
}

#[test]
fn a_text_is_continued() {
    let served = Served::start(Setup::default());
    let ask = |more: Value| {
        let mut body = json!({"prompt": "def fibonacci(n):", "temperature": 0});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        served.post("/v1/completions", &body)
    };
    let plain = ask(json!({}));
    assert_eq!(plain.json()["usage"]["completion_tokens"], 16, "the cap of this route");
    assert_eq!(plain.json()["object"], "text_completion");
    let tokens = json!({"content": "def fibonacci(n):", "add_special": true});
    let ids = served.post("/tokenize", &tokens).json()["tokens"].take();
    assert_eq!(ask(json!({"prompt": ids})).content(), plain.content());
    assert_eq!(ask(json!({"prompt": ["def fibonacci(n):"]})).content(), plain.content());
    let spelled = ask(json!({"prompt": "<|startoftext|>def fibonacci(n):"}));
    assert_eq!(spelled.json()["usage"], plain.json()["usage"], "the start token comes once");
    let scored = ask(json!({"logprobs": 2})).json()["choices"][0].take();
    let logprobs = &scored["logprobs"];
    let count = |field: &str| logprobs[field].as_array().unwrap().len();
    let counts = ["tokens", "token_logprobs", "top_logprobs", "text_offset"].map(count);
    assert_eq!(counts, [16; 4]);
    let tokens: String = logprobs["tokens"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
    assert_eq!(tokens, plain.content());
    assert!(
        logprobs["top_logprobs"].as_array().unwrap().iter().all(|top| top.as_object().unwrap().len() == 2)
    );
}

#[test]
fn speculation_changes_no_field_of_the_answer() {
    let served = Served::start(Setup::default());
    let settings = [
        json!({}),
        json!({"temperature": 0.8, "seed": -3}),
        json!({"temperature": 1.1, "top_p": 0.9, "top_k": 40, "min_p": 0.02, "seed": 5}),
        json!({"presence_penalty": 1.0, "frequency_penalty": 0.5, "repetition_penalty": 1.2}),
        json!({"logit_bias": {"300": -100, "301": 5}, "logprobs": true, "top_logprobs": 3}),
        json!({"stop": ["hash", "."], "logprobs": true}),
        json!({"ignore_eos": true, "min_tokens": 10}),
    ];
    for setting in settings {
        let ask = |speculative: Value| {
            let mut more = setting.clone();
            more["max_tokens"] = 40.into();
            more["speculative"] = speculative;
            let reply = served.chat(PROMPT, more);
            assert_eq!(reply.status, 200, "{setting}: {reply:?}");
            let mut json = reply.json();
            let timings = json["timings"].take();
            ((json["choices"].take(), json["usage"].take()), timings)
        };
        let (classic, timings) = ask(json!({"enabled": false}));
        assert_eq!(timings["draft_decline"], "speculation is switched off");
        assert_eq!((&timings["draft_n"], &timings["draft_kind"]), (&0.into(), &Value::Null));
        for wish in [
            json!(null),
            json!(true),
            json!({"max_width": 1}),
            json!({"max_width": 3}),
            json!({"max_width": 16}),
        ] {
            let (speculative, timings) = ask(wish.clone());
            assert_eq!(speculative, classic, "{setting} with {wish}");
            let widest = timings["draft_widths"]
                .as_object()
                .unwrap()
                .keys()
                .map(|width| width.parse::<u64>().unwrap());
            let most = wish["max_width"].as_u64().unwrap_or(u64::MAX);
            assert!(widest.max().unwrap_or(1) <= most, "{wish}: {timings}");
        }
        assert_eq!(ask(json!(false)).0, classic);
    }
}

#[test]
fn logprobs_spell_the_answer() {
    let served = Served::start(Setup::default());
    let reply = served
        .chat("Name three rivers.", json!({"logprobs": true, "top_logprobs": 2, "max_tokens": 32}))
        .json();
    let entries = reply["choices"][0]["logprobs"]["content"].as_array().unwrap().clone();
    let bytes: Vec<_> = entries
        .iter()
        .flat_map(|entry| entry["bytes"].as_array().unwrap())
        .map(|byte| byte.as_u64().unwrap() as u8)
        .collect();
    assert_eq!(String::from_utf8(bytes).unwrap(), reply["choices"][0]["message"]["content"]);
    for entry in &entries {
        let top = entry["top_logprobs"].as_array().unwrap();
        assert!(entry["logprob"].as_f64().unwrap() <= 0.0);
        // At temperature 0 the likeliest is the token itself.
        assert_eq!((&top[0]["token"], &top[0]["logprob"]), (&entry["token"], &entry["logprob"]));
        assert!(top[0]["logprob"].as_f64() >= top[1]["logprob"].as_f64());
    }
    assert!(entries.iter().any(|entry| entry["logprob"].as_f64() < Some(0.0)));
}

#[test]
fn a_stop_string_ends_text_tokens_and_logprobs() {
    let served = Served::start(Setup::default());
    let whole = served.chat(PROMPT, json!({})).content();
    let stop = "index";
    assert!(whole.contains(stop), "{whole}");
    let stopped = served.chat(PROMPT, json!({"stop": [stop, "zzz"], "logprobs": true}));
    let json = stopped.json();
    assert_eq!(stopped.content(), whole.split(stop).next().unwrap());
    assert_eq!(json["choices"][0]["finish_reason"], "stop");
    let entries = json["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(entries.len() as u64, json["usage"]["completion_tokens"].as_u64().unwrap());
    assert!(entries.last().unwrap()["token"].as_str().unwrap().contains(stop), "{entries:?}");
    let streamed = served.chat(PROMPT, json!({"stop": [stop], "stream": true}));
    assert_eq!(streamed.streamed(), stopped.content());
}

#[test]
fn the_context_bounds_prompt_and_answer() {
    let setup = Setup {
        limits: mlxcel_core::engine::Limits { context: 64, ..Default::default() },
        ..Setup::default()
    };
    let served = Served::start(setup);
    let ids = |count: usize| json!({"prompt": vec![300; count], "max_tokens": 10, "temperature": 0});
    for (count, most) in [(62, 2), (63, 1), (40, 10)] {
        let json = served.post("/v1/completions", &ids(count)).json();
        assert!(json["usage"]["completion_tokens"].as_u64().unwrap() <= most, "{json}");
        assert_eq!(json["usage"]["prompt_tokens"], count);
    }
    for count in [64, 65, 5000] {
        let reply = served.post("/v1/completions", &ids(count));
        assert_eq!(reply.status, 400);
        let message = reply.error();
        assert!(message.contains("64") && message.contains(&count.to_string()), "{message}");
        assert_eq!(reply.json()["error"]["code"], "context_length_exceeded");
    }
    let streamed = served.chat(&"word ".repeat(500), json!({"stream": true}));
    assert_eq!((streamed.status, streamed.error().contains("64")), (400, true));
}

#[test]
fn names_of_the_model() {
    let served = Served::start(Setup::default());
    for name in [json!("default"), json!("demo"), json!("lfm2-demo"), Value::Null] {
        let reply = served.chat("Hi", json!({"model": name, "max_tokens": 2}));
        assert_eq!((reply.status, &reply.json()["model"]), (200, &"demo".into()), "{name}");
    }
    let other = served.chat("Hi", json!({"model": "gpt-4o"}));
    assert_eq!(other.status, 404);
    assert_eq!(other.error(), "model: \"gpt-4o\" is not served here, expected \"demo\" or \"default\"");
    assert_eq!(served.get("/v1/models").json()["data"][0]["id"], "demo");
    assert_eq!(served.get("/v1/models/default").json()["id"], "demo");
    assert_eq!(served.get("/v1/models/other").status, 404);
}

#[test]
fn texts_and_ids() {
    let served = Served::start(Setup::default());
    let ids = served.post("/tokenize", &json!({"content": "Hello<|im_end|>"})).json()["tokens"].take();
    assert_eq!(ids.as_array().unwrap().last(), Some(&json!(4)));
    let plain = served.post("/tokenize", &json!({"content": "Hello<|im_end|>", "parse_special": false}));
    assert!(!plain.json()["tokens"].as_array().unwrap().contains(&json!(4)));
    let text = served.post("/detokenize", &json!({"tokens": ids})).json();
    assert_eq!(text["content"], "Hello<|im_end|>");
    let pieces = served.post("/tokenize", &json!({"content": "Hi", "with_pieces": true})).json();
    assert!(pieces["tokens"][0]["piece"].is_string());
    let prompt =
        served.post("/apply-template", &json!({"messages": [{"role": "user", "content": "Hi"}]})).json();
    assert_eq!(prompt["prompt"], "<|startoftext|><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    for (path, body) in [
        ("/tokenize", json!({})),
        ("/tokenize", json!({"content": 3})),
        ("/detokenize", json!({"tokens": [99999]})),
        ("/detokenize", json!({"tokens": "x"})),
        ("/apply-template", json!({"messages": [{"role": "robot", "content": "x"}]})),
    ] {
        let reply = served.post(path, &body);
        assert_eq!(reply.status, 400, "{path} {body}");
        assert!(!reply.error().is_empty());
    }
}
