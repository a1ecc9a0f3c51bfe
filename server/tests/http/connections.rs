//! Clients that go, half close, or never finish a request.

use std::{
    io::Write as _,
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    client::Open,
    started::{Served, Setup, chat},
};

const CHAT: &str = "/v1/chat/completions";

#[test]
fn a_client_that_goes_ends_its_answer() {
    let mut setup = Setup::default();
    setup.limits.parallel = 1;
    let served = Served::start(setup);
    let endless =
        |stream: bool| chat("Hi", json!({"stream": stream, "max_tokens": 3900, "ignore_eos": true}));
    // In the middle of a stream.
    let mut open = served.open(CHAT, &endless(true));
    open.read_until("\"content\":\"");
    drop(open);
    served.wait_until_idle();
    // While it waits for a whole answer.
    let open = served.open(CHAT, &endless(false));
    let start = Instant::now();
    while served.metric("num_requests_running") == 0.0 {
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    drop(open);
    served.wait_until_idle();
    // While it waits for its turn.
    let mut running = served.open(CHAT, &endless(true));
    running.read_until("\"content\":\"");
    let mut waiting = served.open(CHAT, &endless(true));
    waiting.read_until("\"role\"");
    drop(waiting);
    drop(running);
    served.wait_until_idle();
    assert_eq!(served.chat("Hi", json!({})).status, 200);
    let text = served.get("/metrics").body;
    let aborted = text.lines().find(|line| line.contains("finished_reason=\"abort\"")).unwrap();
    assert!(aborted.ends_with(" 4"), "{aborted}");
}

#[test]
fn a_client_that_closes_its_half_gets_its_answer() {
    let served = Served::start(Setup::default());
    for stream in [false, true] {
        let expected = served.chat("Hi", json!({"max_tokens": 60}));
        // Well within the second that an answer in one piece has.
        let open = served.open(CHAT, &chat("Hi", json!({"stream": stream, "max_tokens": 60})));
        open.half_close();
        let reply = open.reply();
        assert_eq!(reply.status, 200);
        let text = if stream { reply.streamed() } else { reply.content() };
        assert_eq!(text, expected.content());
    }
}

#[test]
fn connections_without_a_request_hold_nothing_up() {
    let mut setup = Setup::default();
    setup.http.request_time = Duration::from_millis(200);
    let served = Served::start(setup);
    let idle: Vec<_> = (0..50).map(|_| TcpStream::connect(served.address).unwrap()).collect();
    let half: Vec<_> = (0..50)
        .map(|_| {
            let head =
                format!("POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{{\"mess");
            Open::raw(served.address, head.as_bytes())
        })
        .collect();
    let heads: Vec<_> = (0..20)
        .map(|_| Open::raw(served.address, b"POST /v1/chat/completions HTTP/1.1\r\nHost: loc"))
        .collect();
    assert_eq!(served.get("/health").status, 200);
    assert_eq!(served.chat("Hi", json!({})).status, 200);
    // Those that sent half a head or half a body are told; those that sent nothing are closed without a word.
    for (opens, what) in [(half, "the body did not come"), (heads, "the head of the request did not come")] {
        for open in opens {
            let reply = open.reply();
            assert_eq!(reply.status, 408);
            assert!(reply.error().starts_with(what), "{reply:?}");
        }
    }
    for mut stream in idle {
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut rest).unwrap();
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }
    assert_eq!(served.metric("http_responses_total{status=\"408\"}"), 70.0);
}

/// A head that comes byte by byte is not waited for longer than one that stops; nor is the second one of a connection, and a
/// connection that has had its answer is closed without a word.
#[test]
fn slow_heads_are_told_of_their_time() {
    let mut setup = Setup::default();
    setup.http.request_time = Duration::from_millis(400);
    let served = Served::start(setup);
    let start = Instant::now();
    let mut slow = Open::raw(served.address, b"G");
    for byte in b"ET /health HTTP/1.1\r\nHost: localhost\r\nX: ".iter().chain(&[b'x'; 100]) {
        std::thread::sleep(Duration::from_millis(20));
        if slow.0.write_all(&[*byte]).is_err() {
            break;
        }
    }
    assert!(start.elapsed() < Duration::from_secs(20));
    let mut answer = Vec::new();
    // The last bytes may have come after the end, which resets the connection behind the answer.
    let _ = std::io::Read::read_to_end(&mut slow.0, &mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{:?}", String::from_utf8_lossy(&answer));

    for (second, expected) in [("", ""), ("GET /health HT", "HTTP/1.1 408 ")] {
        let mut open = Open::raw(served.address, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
        open.read_until("}");
        open.0.write_all(second.as_bytes()).unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut open.0, &mut rest).unwrap();
        let status: String = rest.chars().take("HTTP/1.1 408 ".len()).collect();
        assert_eq!(status, expected, "{rest}");
    }
}

#[test]
fn odd_heads_are_refused() {
    let served = Served::start(Setup::default());
    let long = format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let many = format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(200));
    for head in ["\0\0\0\r\n\r\n", "GET\r\n\r\n", &long, &many] {
        let reply = Open::raw(served.address, head.as_bytes()).reply();
        assert!([400, 431].contains(&reply.status), "{reply:?}");
    }
    assert_eq!(served.get("/health").status, 200);
}

#[test]
fn one_connection_carries_many_requests() {
    let served = Served::start(Setup::default());
    let mut stream = TcpStream::connect(served.address).unwrap();
    for _ in 0..3 {
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut open = Open(stream);
        open.read_until("{\"status\":\"ok\",\"exactness\":null}");
        stream = open.0;
    }
}
