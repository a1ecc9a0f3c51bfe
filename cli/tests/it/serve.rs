//! `mlxcel serve` as people start and end it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStderr, Command},
};

use serde_json::Value;

use crate::{
    checkpoints::Folder,
    program::{command, end, run},
};

/// A server that is ready, where it listens, and its log so far.
struct Serving {
    child: Child,
    log: Option<BufReader<ChildStderr>>,
    address: String,
    lines: Vec<String>,
}

impl Serving {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let log = Some(BufReader::new(child.stderr.take().unwrap()));
        let mut serving = Self { child, log, address: String::new(), lines: Vec::new() };
        while !serving.lines.last().is_some_and(|line| line.contains("ready: ")) {
            let mut line = String::new();
            assert!(
                serving.log.as_mut().unwrap().read_line(&mut line).unwrap() > 0,
                "it ended: {:?}",
                serving.lines
            );
            if let Some((_, rest)) = line.split_once("listening on http://") {
                serving.address = rest.trim_end_matches(['\n', '"', '}']).to_owned();
            }
            serving.lines.push(line);
        }
        serving
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    fn chat(&self, headers: &str) -> String {
        self.chat_for(4, headers)
    }

    /// An answer of this many tokens.
    fn chat_for(&self, tokens: usize, headers: &str) -> String {
        let fields = format!(r#""max_tokens":{tokens},"ignore_eos":true"#);
        let body = format!(r#"{{"messages":[{{"role":"user","content":"Say xyzzy."}}],{fields}}}"#);
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}"
        );
        self.ask(&format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
    }

    /// Ends it by a signal; its exit code and the whole log.
    fn end(mut self, signal: &str) -> (Option<i32>, Vec<String>) {
        Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        if let Some(log) = self.log.take() {
            self.lines.extend(log.lines().map(|line| line.unwrap() + "\n"));
        }
        (self.child.wait().unwrap().code(), self.lines)
    }
}

fn serve(arguments: &[&str]) -> Command {
    command(&[&["serve", "--port", "0"], arguments].concat())
}

#[cfg(unix)]
#[test]
fn it_answers_until_a_signal_and_logs_no_prompt() {
    for signal in ["-INT", "-TERM"] {
        let serving = Serving::start(serve(&["-np", "2", "-c", "512", "--alias", "toy"]));
        let reply = serving.chat("");
        assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("\"model\":\"toy\""), "{reply}");
        let (code, log) = serving.end(signal);
        let log = log.concat();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains("answered prompt=") && !log.contains("xyzzy"), "{log}");
        let ms = log.split_once(" ms=").unwrap().1.split_whitespace().next().unwrap();
        assert!(ms.split_once('.').is_none_or(|(_, digits)| digits.len() == 1), "{ms}");
    }
}

#[cfg(unix)]
#[test]
fn flags_have_twins_in_the_environment() {
    let mut command = serve(&["--log-format", "json"]);
    command.env("MLXCEL_API_KEY", "from-environment").env("MLXCEL_NO_DRAFT", "true");
    let serving = Serving::start(command);
    assert!(serving.chat("").starts_with("HTTP/1.1 401"));
    let reply = serving.chat("Authorization: Bearer from-environment\r\n");
    assert!(reply.contains("\"draft_n\":0"), "{reply}");
    let (_, log) = serving.end("-TERM");
    for line in &log {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["message"].is_string() && line["level"].is_string(), "{line}");
    }
    assert!(!log.concat().contains("from-environment"));
    assert!(log.iter().any(|line| line.contains("\"emitted\":4")), "{log:?}");
}

/// What requests teach of widths is kept where the user says, and known at the next start; or neither.
#[cfg(unix)]
#[test]
fn what_is_learned_of_widths_outlives_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let evidence = folder.path().join("evidence");
    let file = || {
        let entries: Vec<_> =
            std::fs::read_dir(&evidence).unwrap().map(|entry| entry.unwrap().path()).collect();
        let [path] = entries.as_slice() else { panic!("{entries:?} is not one file") };
        let value: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        (path.clone(), value)
    };
    let rounds = |value: &Value| value["evidence"]["classic_rounds"].as_u64().unwrap();
    let session = |more: &[&str], folder: bool| {
        let mut command = serve(more);
        if folder {
            command.env("MLXCEL_DRAFT_EVIDENCE", &evidence);
        }
        let serving = Serving::start(command);
        assert!(serving.chat_for(40, "").starts_with("HTTP/1.1 200"));
        assert_eq!(serving.end("-TERM").0, Some(0));
    };
    session(&["--no-draft-evidence"], true);
    assert!(!evidence.exists());
    session(&[], true);
    let (path, mut value) = file();
    assert!((2..40).contains(&rounds(&value)), "{value}");
    // Another past: a server that does not know of it learns less, and puts that in its place.
    value["evidence"]["classic_rounds"] = 1000.into();
    std::fs::write(&path, value.to_string()).unwrap();
    session(&["--draft-evidence", evidence.to_str().unwrap()], false);
    let (_, learned) = file();
    assert!(rounds(&learned) >= 1000, "{learned}");
}

#[cfg(unix)]
#[test]
fn a_log_without_a_reader_does_not_end_it() {
    let mut serving = Serving::start(serve(&[]));
    serving.log = None;
    for _ in 0..3 {
        assert!(serving.chat("").starts_with("HTTP/1.1 200"));
    }
    assert_eq!(serving.end("-TERM").0, Some(0));
}

#[test]
fn what_cannot_be_served_is_said_at_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let in_use = run(&["serve", "--port", &port]);
    assert_eq!(in_use.code, Some(1));
    assert_eq!(
        in_use.stderr,
        format!(
            "error: port {port} of 127.0.0.1 is in use\nhint: choose another one with --port, or end the program that uses it\n"
        )
    );

    let folder = Folder::new();
    let (missing, cut) = (
        folder.path("missing"),
        folder.target("cut", |folder| std::fs::remove_file(folder.join("model.safetensors")).unwrap()),
    );
    let empty = folder.path("empty-keys");
    std::fs::write(&empty, "\n\n").unwrap();
    let too_wide = ["-np", "17", "--draft-width", "fixed", "--draft-block-size", "8", "--batch-rows", "7"];
    let cases: [(&[&str], i32, &str); 11] = [
        (&too_wide, 2, "blocks of 8 rows do not fit --batch-rows 7\nhint: --batch-rows of at least 8"),
        (&["--api-key", ""], 2, "an API key is empty"),
        (&["--api-key", "a b"], 2, "holds a space"),
        (&["--api-key-file", "/nonexistent"], 1, "cannot read the API keys"),
        (&["--api-key-file", &empty], 1, "holds no API key"),
        (&["--host", "no such host"], 1, "is no address that can be found"),
        (&["-m", &missing], 1, "cannot load the target"),
        (&["-m", &cut], 1, "cannot load the target"),
        (&["--draft-block-size", "17"], 2, "limit"),
        (&["--temp", "nan"], 2, "--temp: NaN is out of range"),
        (&["--parallel", "0"], 2, "--parallel"),
    ];
    for (arguments, code, message) in cases {
        let ended = end(serve(arguments).spawn().unwrap());
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(message), "{arguments:?}: {ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
        // What can be told from flags and files is told before anybody can connect.
        assert!(!ended.stderr.contains("listening"), "{arguments:?}: {ended:?}");
    }
}
