//! Stdin and stdout that go away, are full, or hold no text.

use std::{
    fs::File,
    io::Read as _,
    process::{Command, Stdio},
};

use crate::program::{command, end, run_with};

const LONG: [&str; 7] = ["run", "--raw", "-p", "import", "-n", "3000", "--stats=json"];

#[test]
fn a_reader_that_goes_ends_the_program_quietly() {
    let mut child = command(&LONG).spawn().unwrap();
    drop(child.stdout.take());
    let ended = end(child);
    assert_eq!(ended.code, Some(141), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 2, "the two lines of loading: {}", ended.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ended = end(command(&LONG).stdout(full).spawn().unwrap());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let error = "error: cannot write the answer\n  caused by: No space left on device";
    assert!(ended.stderr.contains(error), "{}", ended.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn help_on_a_full_disk_is_an_error() {
    for arguments in [&["--help"][..], &["--version"], &["help", "run"], &["families"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = end(command(arguments).stdout(full).spawn().unwrap());
        assert_eq!(ended.code, Some(1), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.starts_with("error: cannot write"), "{arguments:?}: {}", ended.stderr);
    }
}

/// Rust puts /dev/null in the place of a closed descriptor, and an answer would be lost without a word.
#[cfg(unix)]
#[test]
fn closed_stdout_is_an_error() {
    let program = env!("CARGO_BIN_EXE_mlxcel");
    for line in ["run -p hi -n 4 -q", "--version", "families", "inspect"] {
        let shell = |redirect: &str| {
            Command::new("sh").args(["-c", &format!("exec '{program}' {line} {redirect}")]).output().unwrap()
        };
        let closed = shell(">&-");
        assert_eq!(closed.status.code(), Some(1), "{line}: {closed:?}");
        let stderr = String::from_utf8(closed.stderr).unwrap();
        assert!(stderr.starts_with("error: stdout is closed\nhint: "), "{line}: {stderr}");
        // Thrown away on purpose, both ways that other programs open it.
        for redirect in [">/dev/null", "1<>/dev/null"] {
            let thrown_away = shell(redirect);
            assert_eq!(thrown_away.status.code(), Some(0), "{line} {redirect}: {thrown_away:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_the_answer() {
    let mut child = command(&LONG).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = end(child);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stdout.ends_with('\n'));
    assert!(ended.stderr.contains(r#""finish":"cancelled""#), "{}", ended.stderr);
}

#[test]
fn help_without_a_reader_is_quiet() {
    let mut child = command(&["completions", "bash"]).spawn().unwrap();
    drop(child.stdout.take());
    let ended = end(child);
    assert!(ended.stderr.is_empty(), "{ended:?}");
    assert!(matches!(ended.code, Some(0 | 141)), "{ended:?}");
}

#[test]
fn closed_stdin_and_odd_bytes_are_refused() {
    let closed = end(command(&["run"]).stdin(Stdio::null()).spawn().unwrap());
    assert_eq!(closed.code, Some(2), "{closed:?}");
    assert!(closed.stderr.starts_with("error: the prompt is empty\nhint: "), "{closed:?}");

    let odd = run_with(b"caf\xe9", &["run"]);
    assert_eq!(odd.code, Some(2), "{odd:?}");
    insta::assert_snapshot!(odd.stderr, @"error: the prompt on stdin is not UTF-8: incomplete utf-8 byte sequence from index 3");
}

#[test]
fn stdin_without_its_last_newline_is_the_flag_raw_or_not() {
    for raw in [&[][..], &["--raw"]] {
        let fixed = [&["run", "-n", "12", "-q"], raw].concat();
        let flag = end(command(&[&fixed[..], &["-p", "import os"]].concat()).spawn().unwrap());
        let stdin = run_with(b"import os\n", &fixed);
        assert_eq!((flag.code, &flag.stdout), (Some(0), &stdin.stdout), "{raw:?}");
    }
}

#[test]
fn a_prompt_that_no_model_reads_is_refused_at_once() {
    let text = vec![b'a'; 9 << 20];
    for raw in [&["run"][..], &["run", "--raw"]] {
        let ended = run_with(&text, raw);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(ended.stderr, @r"
            error: the prompt has more than 8388608 bytes of text, and no model reads so much
            hint: shorten the prompt
            ");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_model_whose_name_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let ended = end(command(&["run", "-p", "Hi", "-m"]).arg(name).spawn().unwrap());
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("the name is not UTF-8"), "{ended:?}");
}

/// Whoever reads may go at any time, and stderr may be closed: no panic, and a code that says so.
#[cfg(target_os = "linux")]
#[test]
fn output_may_go_in_every_command() {
    for arguments in [&["--help"][..], &["run", "--help"], &["families"], &["inspect"], &LONG] {
        let mut child = command(arguments).spawn().unwrap();
        drop(child.stdout.take());
        let ended = end(child);
        assert!(matches!(ended.code, Some(0 | 1 | 141)), "{arguments:?}: {ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
        let silent = end(command(arguments).stderr(Stdio::null()).spawn().unwrap());
        assert_eq!(silent.code, Some(0), "{arguments:?}");
        let script = r#"exec "$0" "$@" 2>&-"#;
        let closed =
            Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_mlxcel")]).args(arguments).output();
        assert_eq!(closed.unwrap().status.code(), Some(0), "{arguments:?}, stderr closed");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_before_the_first_token_ends_the_program() {
    // A prompt that takes a while: the whole context.
    let prompt = "word ".repeat(3500);
    let mut child = command(&["run", "--raw", "-n", "4"]).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), prompt.as_bytes()).unwrap();
    // The note says that loading has begun, so that the handler is there.
    let mut note = [0; 7];
    child.stderr.as_mut().unwrap().read_exact(&mut note).unwrap();
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = end(child);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(!ended.stderr.contains("panicked"), "{ended:?}");
}

#[test]
fn odd_prompts_on_stdin_are_answered_or_refused() {
    let zero = run_with(b"a\0b", &["run", "-n", "4", "-q"]);
    assert_eq!((zero.code, zero.stderr.as_str()), (Some(0), ""), "{zero:?}");
    let long = run_with(&b"word ".repeat(1 << 18), &["run", "-n", "4", "-q"]);
    assert_eq!((long.code, long.stdout.as_str()), (Some(2), ""));
    assert!(long.stderr.contains("and the context holds 4096"), "{}", long.stderr);
    let empty = run_with(b"", &["run"]);
    assert_eq!(empty.code, Some(2), "{empty:?}");
}
