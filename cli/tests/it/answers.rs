//! Answers of the pair inside the program.

use serde_json::Value;

use crate::{
    checkpoints::Folder,
    program::{Ended, filtered, run, run_with},
};

/// A run that succeeds.
fn answer(arguments: &[&str]) -> Ended {
    let ended = run(&[&["run"], arguments].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended
}

/// The closing line, as JSON.
fn stats(ended: &Ended) -> Value {
    serde_json::from_str(ended.stderr.lines().last().unwrap()).unwrap()
}

#[test]
fn a_prompt_and_its_answer() {
    let _filtered = filtered();
    let ended = answer(&["-p", "def fibonacci(n):", "-n", "24", "--seed", "7"]);
    insta::assert_snapshot!(ended.all());
}

#[test]
fn the_drafter_does_not_change_the_answer() {
    for sampling in
        [&["--temp", "0", "--seed", "7"][..], &["--temp", "0.8", "--top-p", "0.95", "--seed", "-3"]]
    {
        let run = |more: &[&str]| {
            let fixed = ["-p", "What is a compiler?", "-n", "40", "--stats", "json", "--quiet"];
            answer(&[&fixed, sampling, more].concat())
        };
        let (speculative, classic) = (run(&["--draft-block-size", "5"]), run(&["--no-draft"]));
        assert_eq!(speculative.stdout, classic.stdout);
        let (speculative, classic) = (stats(&speculative), stats(&classic));
        assert_eq!(speculative["tokens"], classic["tokens"]);
        assert_eq!(speculative["seed"], classic["seed"]);
        assert!(speculative["tokens_per_round"].as_f64().unwrap() > 1.3, "{speculative}");
        assert_eq!((&speculative["width"], &speculative["decline"]), (&5.into(), &Value::Null));
        assert_eq!(classic["tokens_per_round"], 1.0);
        assert_eq!(classic["decline"], "speculation is switched off");
    }
}

#[test]
fn stdin_is_a_prompt_too() {
    let flag = answer(&["-p", "What is a list?", "-n", "8", "-q"]);
    let stdin = run_with(b"What is a list?\n", &["run", "-n", "8", "-q"]);
    assert_eq!((stdin.code, stdin.stderr.as_str()), (Some(0), ""));
    assert_eq!(stdin.stdout, flag.stdout);
}

#[test]
fn a_raw_prompt_begins_with_the_start_token_once() {
    let tokens = |prompt| {
        stats(&answer(&["--raw", "-p", prompt, "-n", "1", "--stats", "json"]))["prompt_tokens"].clone()
    };
    assert_eq!(tokens("import os"), tokens("<|startoftext|>import os"));
}

#[test]
fn a_model_without_template_continues_the_prompt() {
    let folder = Folder::new();
    let model = folder.target("target", |folder| {
        std::fs::remove_file(folder.join("chat_template.jinja")).unwrap();
        let config = r#"{"bos_token": "<|startoftext|>", "eos_token": "<|im_end|>"}"#;
        std::fs::write(folder.join("tokenizer_config.json"), config).unwrap();
    });
    let ended = answer(&["-m", &model, "-p", "import os", "-n", "8"]);
    assert!(ended.stderr.contains("has no chat template: the prompt is continued"), "{}", ended.stderr);
    let raw = answer(&["--raw", "-p", "import os", "-n", "8", "--no-draft"]);
    assert_eq!(ended.stdout, raw.stdout);
    assert!(ended.stderr.contains("no speculation: no drafter is loaded"), "{}", ended.stderr);

    let system = run(&["run", "-m", &model, "-p", "Hi", "--system", "Be brief."]);
    assert_eq!(system.code, Some(2), "{system:?}");
}

#[test]
fn accepted_tokens_are_marked() {
    let arguments = ["--raw", "-p", "def main():", "-n", "24"];
    let plain = answer(&arguments);
    let marked = answer(&[&arguments[..], &["--show-speculation"]].concat());
    assert!(marked.stdout.contains('⟦') && marked.stdout.contains('⟧'), "{}", marked.stdout);
    assert!(!marked.stdout.starts_with('⟦'), "the first token is the target's own");
    assert_eq!(marked.stdout.replace(['⟦', '⟧'], ""), plain.stdout);
}
