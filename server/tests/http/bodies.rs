//! Bodies that are not the JSON we want, routes that are not there.

use std::{
    io::{Read as _, Write as _},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    client::Open,
    started::{Served, Setup, chat},
};

const CHAT: &str = "/v1/chat/completions";
/// Bytes of a body beyond the bound, and the words of its refusal.
const SENT: usize = 8 << 20;
const TOO_LARGE: &str = "the body has more than 1048576 bytes";

#[test]
fn odd_bodies_are_refused_and_the_server_lives() {
    let served = Served::start(Setup::default());
    let deep =
        |open: &str, depth: usize| format!("{{\"messages\": [], \"x\": {}", open.repeat(depth)).into_bytes();
    let bodies: [Vec<u8>; 12] = [
        b"".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
        b"{\"model\": default}".to_vec(),
        b"{\"model\":\"default\",\"messages\":[{\"role\":\"user\",\"conte".to_vec(),
        b"{}{}".to_vec(),
        b"{\"\xff\xfe".to_vec(),
        b"{\"messages\":[{\"role\":\"user\",\"content\":\"h\xff\"}]}".to_vec(),
        b"{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud83d\"}]}".to_vec(),
        b"{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":NaN}".to_vec(),
        deep("[", 100_000),
        deep("{\"a\":", 100_000),
    ];
    for body in bodies {
        let reply = Open::send(served.address, "POST", CHAT, &[], &body).reply();
        assert_eq!(reply.status, 400, "{reply:?}");
        assert!(!reply.error().is_empty());
    }
    let schema = format!("{}{{}}{}", "{\"p\":".repeat(100), "}".repeat(100));
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": serde_json::from_str::<serde_json::Value>(&schema).unwrap()}}]);
    assert!([200, 400].contains(&served.chat("Hi", json!({"tools": tools})).status));
    assert_eq!(served.chat("Hi", json!({})).status, 200);
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let mut setup = Setup::default();
    setup.http.body = 1 << 20;
    let served = Served::start(setup);
    let reply = Open::send(served.address, "POST", CHAT, &[], &vec![b' '; 8 << 20]).reply();
    assert_eq!((reply.status, reply.error()), (413, TOO_LARGE.to_owned()));
    // In pieces, whose sum nobody announced.
    let mut chunked =
        format!("POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    chunked.push_str(&format!("80000\r\n{}\r\n", " ".repeat(0x80000)).repeat(3));
    let reply = Open::raw(served.address, (chunked + "0\r\n\r\n").as_bytes()).reply();
    assert_eq!((reply.status, reply.error()), (413, TOO_LARGE.to_owned()));
    assert_eq!(served.chat("Hi", json!({})).status, 200);
}

#[test]
fn a_body_that_is_announced_to_be_too_large_is_not_waited_for() {
    let mut setup = Setup::default();
    setup.http.body = 1 << 20;
    setup.http.request_time = Duration::from_secs(50);
    let served = Served::start(setup);
    let start = Instant::now();
    let announce = |fields: &str| {
        let head =
            format!("POST {CHAT} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {SENT}\r\n\r\n");
        let mut open = Open::raw(served.address, head.as_bytes());
        let answer = open.read_until(TOO_LARGE);
        assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("connection: close"), "{answer}");
        open.0
    };
    // What is sent all the same is taken in: who sends first and reads then is not cut off in between.
    let mut sender = announce("");
    for _ in 0..16 {
        sender.write_all(&vec![b' '; SENT / 16]).unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    // Who waits to be told to send it has nothing more to wait for; nor is one waited for that sends no more.
    for mut open in [sender, announce("Expect: 100-continue\r\n"), announce("")] {
        let mut rest = String::new();
        open.read_to_string(&mut rest).unwrap();
        assert!(!rest.contains("HTTP/1.1"), "{rest}");
    }
    assert!(start.elapsed() < Duration::from_secs(40), "it waited for bodies: {:?}", start.elapsed());
    // One that is as long as may be is read, and what is wrong with it is said.
    let just = Open::send(served.address, "POST", CHAT, &[], &vec![b' '; 1 << 20]).reply();
    assert_eq!(just.status, 400);
    assert_eq!(served.chat("Hi", json!({})).status, 200);
}

#[test]
fn any_content_type_will_do() {
    let served = Served::start(Setup::default());
    let body = chat("Hi", json!({})).to_string();
    for kind in ["text/plain", "application/json; charset=utf-8", "x"] {
        let reply =
            Open::send(served.address, "POST", CHAT, &[("Content-Type", kind)], body.as_bytes()).reply();
        assert_eq!(reply.status, 200, "{kind}");
    }
}

#[test]
fn routes_that_are_not_there() {
    let served = Served::start(Setup::default());
    let wrong = served.get(CHAT);
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    assert_eq!(wrong.error(), "GET is not allowed here");
    for path in
        ["/v1/chat/completion", "//v1/models", "/v1/models/", "/V1/models", "/v1/./models", "/docs", "/slots"]
    {
        let reply = served.get(path);
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.error().contains("not known") || reply.error().contains("not served"), "{reply:?}");
    }
    let page = served.get("/");
    assert_eq!(page.status, 200);
    assert!(page.header("content-security-policy").unwrap().contains("default-src 'none'"));
    for outside in ["http://", "https://", "src=", "@import"] {
        let found = page
            .body
            .match_indices(outside)
            .filter(|(at, _)| !page.body[*at..].starts_with("http://www.w3.org/"));
        assert_eq!(found.count(), 0, "the page asks for nothing from outside: {outside}");
    }
}

#[test]
fn properties_and_metrics() {
    let served = Served::start(Setup::default());
    served.chat("What is a list?", json!({}));
    let mut props = served.get("/props").json();
    props["build_info"] = "…".into();
    insta::assert_snapshot!(serde_json::to_string_pretty(&props).unwrap());
    let metrics = served.get("/metrics");
    assert!(metrics.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let names: Vec<_> = metrics.body.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    insta::assert_snapshot!(names.join("\n"));
    let (drafted, accepted) = (
        served.metric("spec_decode_num_draft_tokens_total"),
        served.metric("spec_decode_num_accepted_tokens_total"),
    );
    assert!(drafted > accepted && accepted > 0.0);
    assert!(metrics.body.ends_with("# EOF\n"));
}
