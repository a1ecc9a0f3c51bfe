//! Who may ask.

use serde_json::json;

use crate::{
    client::Open,
    started::{Served, Setup, chat},
};

const KEY: &str = "test-key-123";

/// Every route, and some that are not there.
const ROUTES: &[(&str, &str)] = &[
    ("GET", "/"),
    ("GET", "/metrics"),
    ("GET", "/props"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/default"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/completions"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/apply-template"),
    ("POST", "/health"),
    ("GET", "/health/"),
    ("GET", "//v1/models"),
    ("GET", "/v1/%6dodels"),
    ("GET", "/nothing"),
    ("OPTIONS", "/v1/models"),
];

#[test]
fn every_route_but_health_needs_the_key() {
    let mut setup = Setup::default();
    setup.http.keys = vec![KEY.to_owned()];
    let served = Served::start(setup);
    for (method, path) in ROUTES {
        for key in [None, Some("Bearer wrong"), Some("Bearer "), Some("Basic dGVzdDp0ZXN0"), Some(KEY)] {
            let headers: Vec<_> = key.map(|key| ("Authorization", key)).into_iter().collect();
            let reply = Open::send(served.address, method, path, &headers, b"{").reply();
            assert_eq!(reply.status, 401, "{method} {path} {key:?}");
            assert!(!reply.body.contains(KEY));
            assert!(!reply.error().is_empty());
        }
    }
    assert_eq!(served.get("/health").status, 200);
    let body = chat("Hi", json!({})).to_string();
    for right in ["Bearer test-key-123", "bearer test-key-123"] {
        let headers = [("Authorization", right)];
        let reply =
            Open::send(served.address, "POST", "/v1/chat/completions", &headers, body.as_bytes()).reply();
        assert_eq!(reply.status, 200);
    }
    // A browser asks for the password of the page.
    let page = served.get("/");
    assert!(page.header("www-authenticate").unwrap().starts_with("Basic realm="));
    let headers = [("Authorization", "Basic eDp0ZXN0LWtleS0xMjM=")];
    assert_eq!(Open::send(served.address, "GET", "/", &headers, b"").reply().status, 200);
}

#[test]
fn without_a_key_other_sites_may_not_ask() {
    let served = Served::start(Setup::default());
    let status = |headers: &[(&str, &str)]| {
        Open::send(
            served.address,
            "POST",
            "/v1/chat/completions",
            headers,
            chat("Hi", json!({})).to_string().as_bytes(),
        )
        .reply()
        .status
    };
    assert_eq!(status(&[("Host", "attacker.example")]), 403);
    assert_eq!(status(&[("Origin", "https://attacker.example")]), 403);
    assert_eq!(status(&[("Host", "localhost:1"), ("Origin", "http://localhost:1")]), 200);
    assert_eq!(served.get("/v1/models").header("access-control-allow-origin"), None);
}

#[test]
fn sites_that_are_named_may() {
    let mut setup = Setup::default();
    setup.http.origins = vec!["https://chat.example".to_owned()];
    let served = Served::start(setup);
    let ask = |method: &str, origin: &str| {
        let headers = [("Origin", origin), ("Access-Control-Request-Method", "POST")];
        Open::send(served.address, method, "/v1/models", &headers, b"").reply()
    };
    let preflight = ask("OPTIONS", "https://chat.example");
    assert_eq!(preflight.header("access-control-allow-origin"), Some("https://chat.example"));
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("authorization"));
    assert_eq!(ask("GET", "https://chat.example").status, 200);
    let other = ask("GET", "https://other.example");
    assert_eq!((other.status, other.header("access-control-allow-origin")), (403, None));
}
