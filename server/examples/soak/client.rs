//! A client that writes and reads bytes, and reads HTTP so strictly that an answer that broke off is seen.

use std::{
    error::Error,
    io::{ErrorKind, Read, Write as _},
    net::{Shutdown, TcpStream},
    thread::sleep,
    time::Duration,
};

use serde_json::Value;
use socket2::SockRef;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A server that sends nothing for this long hangs: a stream that has nothing to say sends a comment every 10 s, and a request
/// that does not come is given up after 30 s.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) fn connect(address: &str) -> Outcome<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The bytes of a request; the server closes the connection behind its answer, unless it is to be kept.
pub(crate) fn post(path: &str, body: &str, keep: bool) -> String {
    let connection = if keep { "keep-alive" } else { "close" };
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: {connection}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Asks and reads to the end.
pub(crate) fn ask(address: &str, path: &str, body: &str) -> Outcome<Reply> {
    let mut stream = connect(address)?;
    stream.write_all(post(path, body, false).as_bytes())?;
    Reply::only(&read(&mut stream)?)
}

/// The body of what a path shows.
pub(crate) fn get(address: &str, path: &str) -> Outcome<String> {
    let mut stream = connect(address)?;
    stream.write_all(get_request(path).as_bytes())?;
    let reply = Reply::only(&read(&mut stream)?)?;
    if reply.status == 200 { Ok(reply.body) } else { Err(format!("{path}: {reply:?}").into()) }
}

pub(crate) fn get_request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

/// Reads until the server closes. A reset is an end as well: what came before it is whole or not, and that is looked at later.
pub(crate) fn read(stream: &mut impl Read) -> Outcome<Vec<u8>> {
    read_slowly(stream, 1 << 14, Duration::ZERO)
}

/// Reads a little at a time, with pauses.
pub(crate) fn read_slowly(stream: &mut impl Read, little: usize, pause: Duration) -> Outcome<Vec<u8>> {
    let (mut bytes, mut part) = (Vec::new(), vec![0; little]);
    loop {
        match stream.read(&mut part) {
            Ok(0) => return Ok(bytes),
            Ok(read) => bytes.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(bytes),
            Err(error) => return Err(format!("{error} after {}", excerpt(&bytes)).into()),
        }
        sleep(pause);
    }
}

/// Goes without a word: with a reset, or as a program that ends does.
pub(crate) fn leave(stream: TcpStream, reset: bool) -> Outcome<()> {
    if reset {
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    } else {
        stream.shutdown(Shutdown::Both)?;
    }
    drop(stream);
    Ok(())
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// In small letters.
    head: String,
    pub(crate) body: String,
}

impl Reply {
    /// The response that `bytes` are.
    pub(crate) fn only(bytes: &[u8]) -> Outcome<Self> {
        match Self::first(bytes)? {
            (reply, []) => Ok(reply),
            (_, rest) => Err(format!("{} follows the answer", excerpt(rest)).into()),
        }
    }

    /// The first of several responses, and what follows it.
    pub(crate) fn first(bytes: &[u8]) -> Outcome<(Self, &[u8])> {
        let broken = || format!("an answer broke off: {}", excerpt(bytes));
        let end = find(bytes, b"\r\n\r\n").ok_or_else(broken)?;
        let head = String::from_utf8(bytes[..end].to_vec())?.to_ascii_lowercase();
        let rest = &bytes[end + 4..];
        let status = head.split(' ').nth(1).ok_or_else(broken)?.parse()?;
        let (body, rest) = match field(&head, "content-length") {
            Some(length) => rest.split_at_checked(length.parse()?).map(|(body, rest)| (body.to_vec(), rest)),
            None => dechunk(rest),
        }
        .ok_or_else(broken)?;
        Ok((Self { status, head, body: String::from_utf8(body)? }, rest))
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

/// The body of chunks, and what follows it; nothing without the chunk that says that it is the last.
fn dechunk(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut body = Vec::new();
    loop {
        let end = find(bytes, b"\r\n")?;
        let size = usize::from_str_radix(str::from_utf8(&bytes[..end]).ok()?, 16).ok()?;
        let rest = &bytes[end + 2..];
        body.extend_from_slice(rest.get(..size)?);
        bytes = rest[size..].strip_prefix(b"\r\n")?;
        if size == 0 {
            return Some((body, bytes));
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn excerpt(bytes: &[u8]) -> String {
    let start = bytes.len().saturating_sub(400);
    format!("{} bytes, at last {:?}", bytes.len(), String::from_utf8_lossy(&bytes[start..]))
}

/// What must be the same whenever the same is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    finish: String,
    logprobs: Vec<Value>,
}

impl Answer {
    /// Of a reply that is not a stream.
    pub(crate) fn whole(reply: &Reply) -> Outcome<Self> {
        let mut answer = Self::default();
        answer.take(&serde_json::from_str(&reply.body)?);
        answer.ended(&reply.body)
    }

    /// Of a stream. Nothing in this test gives a reason for an error on the way.
    pub(crate) fn streamed(reply: &Reply) -> Outcome<Self> {
        let mut answer = Self::default();
        let mut data = reply.body.lines().filter_map(|line| line.strip_prefix("data: "));
        for event in data.by_ref().take_while(|&data| data != "[DONE]") {
            answer.take(&serde_json::from_str(event)?);
        }
        if !reply.body.ends_with("data: [DONE]\n\n") || data.next().is_some() {
            return Err(
                format!("a stream does not end with [DONE]: {}", excerpt(reply.body.as_bytes())).into()
            );
        }
        answer.ended(&reply.body)
    }

    /// Takes in a chunk, or a whole answer.
    fn take(&mut self, chunk: &Value) {
        let choice = &chunk["choices"][0];
        for text in [&choice["message"]["content"], &choice["delta"]["content"], &choice["text"]] {
            self.text.push_str(text.as_str().unwrap_or_default());
        }
        self.finish.push_str(choice["finish_reason"].as_str().unwrap_or_default());
        for logprobs in [&choice["logprobs"]["content"], &choice["logprobs"]["token_logprobs"]] {
            self.logprobs.extend(logprobs.as_array().into_iter().flatten().cloned());
        }
    }

    fn ended(self, body: &str) -> Outcome<Self> {
        if ["stop", "length"].contains(&self.finish.as_str()) {
            Ok(self)
        } else {
            Err(format!("an answer without an end: {}", excerpt(body.as_bytes())).into())
        }
    }
}
