//! A client that writes and reads bytes.

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in small letters.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The message of an error in the form that all have.
    pub(crate) fn error(&self) -> String {
        let json = self.json();
        assert!(self.header("content-type").unwrap().starts_with("application/json"), "{self:?}");
        assert!(json["error"]["type"].is_string(), "{self:?}");
        json["error"]["message"].as_str().unwrap().to_owned()
    }

    /// The text of the first choice.
    pub(crate) fn content(&self) -> String {
        let json = self.json();
        let choice = &json["choices"][0];
        let text = choice["message"]["content"].as_str().or(choice["text"].as_str());
        text.unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    /// The data of the events of a stream.
    pub(crate) fn data(&self) -> Vec<&str> {
        self.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect()
    }

    /// The events of a stream, without the last word.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.data();
        data.iter()
            .filter(|data| **data != "[DONE]")
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    /// The text of a stream.
    pub(crate) fn streamed(&self) -> String {
        let events = self.events();
        let choices = events.iter().map(|event| &event["choices"][0]);
        choices.filter_map(|choice| choice["delta"]["content"].as_str().or(choice["text"].as_str())).collect()
    }
}

/// An open connection on which a request was sent.
pub(crate) struct Open(pub(crate) TcpStream);

impl Open {
    /// Sends a request as it is given.
    pub(crate) fn raw(address: SocketAddr, bytes: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        // A server that refuses may have closed already.
        let _ = stream.write_all(bytes);
        Self(stream)
    }

    /// Sends a request.
    pub(crate) fn send(
        address: SocketAddr,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Self {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            write!(head, "Host: {address}\r\n").unwrap();
        }
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        write!(head, "Content-Length: {}\r\n\r\n", body.len()).unwrap();
        Self::raw(address, &[head.as_bytes(), body].concat())
    }

    /// Closes the sending half.
    pub(crate) fn half_close(&self) {
        self.0.shutdown(Shutdown::Write).unwrap();
    }

    /// Reads until `text` has come.
    pub(crate) fn read_until(&mut self, text: &str) -> String {
        let mut got = Vec::new();
        let mut part = [0; 4096];
        while !String::from_utf8_lossy(&got).contains(text) {
            let read = self.0.read(&mut part).unwrap();
            assert!(read > 0, "it ended after {:?}", String::from_utf8_lossy(&got));
            got.extend_from_slice(&part[..read]);
        }
        String::from_utf8(got).unwrap()
    }

    /// Reads the rest; `before` was read already.
    pub(crate) fn rest(mut self, before: &str) -> Reply {
        let mut got = before.as_bytes().to_vec();
        let mut part = [0; 1 << 14];
        // Some servers keep a connection that is to be closed.
        while !is_whole(&got) {
            match self.0.read(&mut part) {
                Ok(0) | Err(_) => break,
                Ok(read) => got.extend_from_slice(&part[..read]),
            }
        }
        parse(&got)
    }

    pub(crate) fn reply(self) -> Reply {
        self.rest("")
    }
}

/// Whether a body of a length that was told is there.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(split) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..split]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    length.is_some_and(|length: usize| bytes.len() >= split + 4 + length)
}

fn parse(bytes: &[u8]) -> Reply {
    let split = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let split = split.unwrap_or_else(|| panic!("no HTTP: {:?}", String::from_utf8_lossy(bytes)));
    let head = String::from_utf8(bytes[..split].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<_> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut body = bytes[split + 4..].to_vec();
    if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
        body = dechunk(&body);
    }
    Reply { status, headers, body: String::from_utf8(body).unwrap() }
}

fn dechunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        let rest = &bytes[end + 2..];
        if size == 0 || rest.len() < size {
            break;
        }
        body.extend_from_slice(&rest[..size]);
        bytes = rest.get(size + 2..).unwrap_or_default();
    }
    body
}
