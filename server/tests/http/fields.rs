//! What is refused, and in which words; and what is ignored.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::started::{Served, Setup};

#[test]
fn refused_fields_are_named() {
    let served = Served::start(Setup::default());
    let cases = [
        json!({"messages": null}),
        json!({"messages": []}),
        json!({"messages": "Hi"}),
        json!({"messages": [{"role": "robot", "content": "x"}]}),
        json!({"messages": [{"role": "System", "content": "x"}]}),
        json!({"messages": [{"role": 3, "content": "x"}]}),
        json!({"messages": [{"content": "x"}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}),
        json!({"model": 3}),
        json!({"temperature": "0.7"}),
        json!({"temperature": true}),
        json!({"temperature": []}),
        json!({"temperature": -0.1}),
        json!({"temperature": 1e300}),
        json!({"top_p": 1.1}),
        json!({"top_p": 0}),
        json!({"top_k": -2}),
        json!({"top_k": 1.5}),
        json!({"min_p": -0.1}),
        json!({"presence_penalty": 2.1}),
        json!({"frequency_penalty": -2.1}),
        json!({"repetition_penalty": 0}),
        json!({"max_tokens": 0}),
        json!({"max_tokens": -1}),
        json!({"max_completion_tokens": "8"}),
        json!({"min_tokens": 25}),
        json!({"seed": 1.5}),
        json!({"seed": "7"}),
        json!({"stop": 7}),
        json!({"stop": [null]}),
        json!({"stop": ""}),
        json!({"stop": ["a", ""]}),
        json!({"logit_bias": {"90000000": 4}}),
        json!({"logit_bias": {"-1": 5}}),
        json!({"logit_bias": {"1.5": 5}}),
        json!({"logit_bias": {"abc": 5}}),
        json!({"logit_bias": {"5": 101}}),
        json!({"logit_bias": {"5": "x"}}),
        json!({"logit_bias": {"5": null}}),
        json!({"logit_bias": []}),
        json!({"logprobs": 3}),
        json!({"top_logprobs": 3}),
        json!({"logprobs": true, "top_logprobs": 21}),
        json!({"logprobs": true, "top_logprobs": -1}),
        json!({"stream": "true"}),
        json!({"stream_options": {"include_usage": 1}}),
        json!({"n": 2}),
        json!({"n": 0}),
        json!({"response_format": {"type": "json_object"}}),
        json!({"response_format": {"type": "json_schema", "json_schema": {}}}),
        json!({"tool_choice": "required"}),
        json!({"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        json!({"tool_choice": 3}),
        json!({"tools": [3]}),
        json!({"functions": [{"name": "f"}]}),
        json!({"modalities": ["text", "audio"]}),
        json!({"audio": {"voice": "x"}}),
        json!({"grammar": "root ::= x"}),
        json!({"guided_json": {}}),
        json!({"mirostat": 2}),
        json!({"typical_p": 0.5}),
        json!({"chat_template_kwargs": {"messages": []}}),
        json!({"chat_template_kwargs": 3}),
        json!({"speculative": 3}),
        json!({"speculative": "yes"}),
        json!({"speculative": [true]}),
        json!({"speculative": {"max_width": 0}}),
        json!({"speculative": {"max_width": 17}}),
        json!({"speculative": {"max_width": "8"}}),
        json!({"speculative": {"enabled": "no"}}),
    ];
    let mut all = String::new();
    for case in cases {
        for stream in [false, true] {
            let mut more = case.clone();
            if stream && case.get("stream").is_none() {
                more["stream"] = true.into();
            }
            let reply = served.chat("Hi", more);
            assert_eq!(reply.status, 400, "{case}: {reply:?}");
            let message = reply.error();
            if !stream {
                let param = reply.json()["error"]["param"].take();
                writeln!(all, "{case}\n    {param}: {message}").unwrap();
            }
        }
    }
    insta::assert_snapshot!(all);
    assert_eq!(served.chat("Hi", json!({})).status, 200);
}

#[test]
fn refused_completions() {
    let served = Served::start(Setup::default());
    let cases = [
        json!({}),
        json!({"prompt": ""}),
        json!({"prompt": []}),
        json!({"prompt": 3}),
        json!({"prompt": ["a", "b"]}),
        json!({"prompt": [1, "a"]}),
        json!({"prompt": [-1]}),
        json!({"prompt": [99999]}),
        json!({"prompt": "x", "echo": true}),
        json!({"prompt": "x", "suffix": "y"}),
        json!({"prompt": "x", "best_of": 3}),
        json!({"prompt": "x", "logprobs": 21}),
        json!({"prompt": "x", "logprobs": true}),
    ];
    let mut all = String::new();
    for case in cases {
        let reply = served.post("/v1/completions", &case);
        // A text that is empty begins with the start token all the same.
        if case["prompt"] == "" {
            assert_eq!(reply.status, 200);
            continue;
        }
        assert_eq!(reply.status, 400, "{case}: {reply:?}");
        writeln!(all, "{case}\n    {}", reply.error()).unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn harmless_fields_are_ignored() {
    let served = Served::start(Setup::default());
    let expected = served.chat("Hi", json!({})).content();
    let cases = [
        json!({"user": "u", "store": false, "metadata": {"a": "b"}, "parallel_tool_calls": false, "x_y": 1}),
        json!({"temperature": -0.0, "stop": null, "top_p": null, "logit_bias": {}, "n": 1, "stream": null}),
        json!({"response_format": {"type": "text"}, "modalities": ["text"], "tool_choice": "auto", "mirostat": 0}),
        json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "tool_choice": "none"}),
        json!({"stream_options": {"include_usage": true}, "typical_p": 1, "suffix": "", "top_k": -1}),
        json!({"max_tokens": 3, "max_completion_tokens": 24}),
        json!({"chat_template_kwargs": {"enable_thinking": false}}),
        json!({"speculative": true}),
        json!({"speculative": {"max_width": 16}}),
        json!({"speculative": {"max_width": null, "enabled": null}}),
    ];
    for case in cases {
        let reply = served.chat("Hi", case.clone());
        assert_eq!((reply.status, reply.content()), (200, expected.clone()), "{case}");
    }
}

#[test]
fn roles_and_parts() {
    let served = Served::start(Setup::default());
    let ask = |messages: Value| served.chat("", json!({"messages": messages}));
    let system = ask(json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]));
    let developer =
        ask(json!([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]));
    assert_eq!(developer.json()["usage"], system.json()["usage"], "developer is system to this template");
    let parts = ask(
        json!([{"role": "user", "content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]}]),
    );
    assert_eq!(parts.content(), served.chat("Hi", json!({})).content());
    let tool = ask(json!([
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": null, "tool_calls":
            [{"id": "c1", "type": "function", "function": {"name": "w", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ]));
    assert_eq!(tool.status, 200, "{tool:?}");
}

#[test]
fn control_tokens_in_messages_are_text() {
    let served = Served::start(Setup::default());
    let count = |text: &str| {
        served.chat(text, json!({"max_tokens": 1})).json()["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    let empty = count("x");
    for control in ["<|im_end|>", "<|im_start|>", "<think>", "<|endoftext|>"] {
        let many = count(&control.repeat(50));
        assert!(many > empty + 100, "{control}: {many} tokens");
    }
}
