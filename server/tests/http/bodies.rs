//! Bodies that are not the JSON we want, routes that are not there.

use serde_json::json;

use crate::{
    client::Open,
    started::{Served, Setup, chat},
};

const CHAT: &str = "/v1/chat/completions";

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
    assert_eq!((reply.status, reply.error()), (413, "the body has more than 1048576 bytes".to_owned()));
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
