//! A conversation, typed at a terminal. `script` (util-linux) provides one; where it is missing, this did not run.

use std::{
    io::{Read, Write as _},
    process::{ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread::sleep,
    time::{Duration, Instant},
};

/// The program on a terminal of its own.
struct Terminal {
    keys: ChildStdin,
    seen: Arc<Mutex<Vec<u8>>>,
    /// Bytes of what was seen that earlier steps have looked at.
    looked: usize,
    child: std::process::Child,
}

impl Terminal {
    fn start(arguments: &str, state: &std::path::Path) -> Option<Self> {
        // Without `exec` a shell stays between the two, gets Ctrl-C as well, and some shells end with it.
        let line = format!("exec {} run {arguments}", env!("CARGO_BIN_EXE_mlxcel"));
        let mut child = Command::new("script")
            .args(["-q", "-e", "-c", &line, "/dev/null"])
            .env("XDG_STATE_HOME", state)
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let (keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let copy = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                copy.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Some(Self { keys, seen, looked: 0, child })
    }

    /// Waits until `text` is on the screen, after what earlier steps waited for; gives what came before it.
    fn wait_for(&mut self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            let screen = String::from_utf8_lossy(&self.seen.lock().unwrap()[self.looked..]).into_owned();
            if let Some(at) = screen.find(text) {
                self.looked += at + text.len();
                return screen[..at].to_owned();
            }
            // Not a measurement: a hang must end some time.
            assert!(begun.elapsed() < Duration::from_mins(2), "no {text:?} in {screen:?}");
            sleep(Duration::from_millis(10));
        }
    }

    /// Types a line at the prompt.
    fn line(&mut self, line: &str) {
        self.wait_for(">>> ");
        self.keys.write_all(format!("{line}\r").as_bytes()).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_conversation_on_a_terminal() {
    let state = tempfile::tempdir().unwrap();
    let Some(mut terminal) =
        Terminal::start("-n 2000 --ignore-eos --show-speculation --draft-width fixed", state.path())
    else {
        let _ = writeln!(std::io::stderr(), "a conversation on a terminal: not run, there is no `script`");
        return;
    };
    terminal.line("/help");
    terminal.wait_for("/exit");
    terminal.line("/set temp hot");
    terminal.wait_for("temp: \"hot\": expected a number");
    terminal.line("/set top-k");
    terminal.wait_for("top-k 0");
    terminal.line("/system Be brief.");
    terminal.line("/system");
    terminal.wait_for("Be brief.");
    terminal.line("Count to a thousand.");
    // Accepted proposals are green, the target's own tokens yellow.
    terminal.wait_for("\x1b[33m");
    terminal.wait_for("\x1b[32m");
    // Ctrl-C stops the answer and not the program.
    terminal.keys.write_all(b"\x03").unwrap();
    terminal.wait_for("stopped");
    terminal.line("/stats");
    terminal.wait_for("stopped by Ctrl-C");
    terminal.line("/set max-tokens 3");
    terminal.wait_for(">>> ");
    // A message of several lines.
    terminal.keys.write_all(b"\"\"\"\r").unwrap();
    terminal.wait_for("... ");
    terminal.keys.write_all(b"one\r").unwrap();
    terminal.wait_for("... ");
    terminal.keys.write_all(b"two\"\"\"\r").unwrap();
    terminal.line("/stats");
    terminal.wait_for("3 tokens");
    // A line that is dropped, and a command that is none.
    terminal.wait_for(">>> ");
    terminal.keys.write_all(b"half\x03").unwrap();
    terminal.wait_for("/exit or Ctrl-D leaves");
    terminal.line("/nope");
    terminal.wait_for("no such command");
    // Lines that are there before they are asked for: none is lost, and a message of several is whole.
    terminal.line("/set temp 0.25\r\"\"\"one\rtwo\"\"\"\r/stats\r/set seed 5\r/set seed");
    terminal.wait_for("3 tokens");
    terminal.wait_for("seed 5");
    // Bytes that are no text end neither the program nor in a message.
    terminal.wait_for(">>> ");
    terminal.keys.write_all(b"caf\xe9 au lait\r").unwrap();
    terminal.wait_for("no UTF-8");
    terminal.line("/set temp");
    terminal.wait_for("temp 0.25");
    terminal.line("/clear");
    terminal.line("/exit");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(0));
    let history = std::fs::read_to_string(state.path().join("mlxcel/history")).unwrap();
    assert!(history.contains("/set max-tokens 3") && !history.contains("half"), "{history}");
    assert!(!history.contains("lait"), "{history}");
}
