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
    let ended = answer(&["-p", "def fibonacci(n):", "-n", "24", "--seed", "7", "--draft-width", "fixed"]);
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
        let (speculative, classic) =
            (run(&["--draft-block-size", "5", "--draft-width", "fixed"]), run(&["--no-draft"]));
        assert_eq!(speculative.stdout, classic.stdout);
        let (speculative, classic) = (stats(&speculative), stats(&classic));
        assert_eq!(speculative["tokens"], classic["tokens"]);
        assert_eq!(speculative["seed"], classic["seed"]);
        assert!(speculative["tokens_per_round"].as_f64().unwrap() > 1.3, "{speculative}");
        assert_eq!((&speculative["width"], &speculative["decline"]), (&5.into(), &Value::Null));
        assert_eq!(classic["tokens_per_round"], 1.0);
        assert_eq!((&speculative["kind"], &speculative["family"]), (&"dflash".into(), &"dspark".into()));
        assert_eq!(classic["decline"], "requested");
        assert_eq!(classic["decline_reason"], "speculation is switched off");
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
    let arguments = ["--raw", "-p", "def main():", "-n", "24", "--draft-width", "fixed"];
    let plain = answer(&arguments);
    let marked = answer(&[&arguments[..], &["--show-speculation"]].concat());
    assert!(marked.stdout.contains('⟦') && marked.stdout.contains('⟧'), "{}", marked.stdout);
    assert!(!marked.stdout.starts_with('⟦'), "the first token is the target's own");
    assert_eq!(marked.stdout.replace(['⟦', '⟧'], ""), plain.stdout);
}

const FIBONACCI: [&str; 7] = ["--raw", "-p", "def fibonacci(n):", "-n", "40", "--stats", "json"];

/// The answer to [`FIBONACCI`] with more flags, and its closing line; the same with speculation and without.
fn fibonacci(more: &[&str]) -> (String, Value) {
    let speculative = answer(&[&FIBONACCI, more].concat());
    let classic = answer(&[&FIBONACCI, more, &["--no-draft"]].concat());
    assert_eq!(speculative.stdout, classic.stdout, "{more:?}");
    let (speculative, classic) = (stats(&speculative), stats(&classic));
    for field in ["tokens", "finish", "logprobs"] {
        assert_eq!(speculative[field], classic[field], "{more:?}: {field}");
    }
    (answer(&[&FIBONACCI, more].concat()).stdout, speculative)
}

#[test]
fn a_stop_string_ends_the_answer_before_it() {
    let (whole, _) = fibonacci(&[]);
    let stop = &whole[20..23];
    let (text, stats) = fibonacci(&["--stop", "never in it", "--stop", stop]);
    let before = whole.split(stop).next().unwrap();
    assert_eq!(text.trim_end_matches('\n'), before.trim_end_matches('\n'));
    assert_eq!(stats["finish"], "stop");
    assert!(stats["tokens"].as_u64().unwrap() < 40);
}

#[test]
fn penalties_and_biases_change_the_answer() {
    let (plain, whole) = fibonacci(&["--logprobs", "0"]);
    for flags in [["--repetition-penalty", "1.5"], ["--presence-penalty", "2"], ["--frequency-penalty", "2"]]
    {
        assert_ne!(fibonacci(&flags).0, plain, "{flags:?}");
    }
    let first = whole["logprobs"][0]["id"].as_u64().unwrap();
    let banned = format!("{first}=-100");
    let (_, stats) = fibonacci(&["--logprobs", "0", "--logit-bias", &banned]);
    let ids: Vec<_> =
        stats["logprobs"].as_array().unwrap().iter().map(|token| token["id"].as_u64()).collect();
    assert!(!ids.contains(&Some(first)), "{first} is in {ids:?}");
}

#[test]
fn end_tokens_can_be_put_off_or_ignored() {
    let finish = |more: &[&str]| {
        let fixed = ["-p", "ls", "-n", "60", "--stats", "json"];
        let ended = stats(&answer(&[&fixed, more].concat()));
        (ended["finish"].as_str().unwrap().to_owned(), ended["tokens"].as_u64().unwrap())
    };
    let (reason, tokens) = finish(&[]);
    assert_eq!(reason, "stop");
    let least = (tokens + 1).to_string();
    assert!(finish(&["--min-tokens", &least]).1 > tokens);
    assert_eq!(finish(&["--ignore-eos"]), ("length".to_owned(), 60));
}

#[test]
fn log_probabilities_of_every_token() {
    let (text, stats) = fibonacci(&["--logprobs", "2"]);
    let logprobs = stats["logprobs"].as_array().unwrap();
    assert_eq!(logprobs.len() as u64, stats["tokens"].as_u64().unwrap());
    let mut bytes = Vec::new();
    for token in logprobs {
        let (logprob, top) = (token["logprob"].as_f64().unwrap(), token["top"].as_array().unwrap());
        assert!(logprob <= 0.0 && top.len() == 2, "{token}");
        assert_eq!((&top[0]["id"], &top[0]["logprob"]), (&token["id"], &token["logprob"]), "greedy");
        assert!(top[0]["logprob"].as_f64() >= top[1]["logprob"].as_f64(), "{token}");
        bytes.extend(token["bytes"].as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap() as u8));
    }
    assert!(logprobs.iter().any(|token| token["logprob"].as_f64().unwrap() < 0.0));
    assert_eq!(String::from_utf8(bytes).unwrap().trim_end(), text.trim_end());
}

#[test]
fn the_template_gets_tools_and_variables() {
    let folder = Folder::new();
    let template =
        "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{{ style }}{{ messages[0].content }}";
    let model = folder.target("target", |folder| {
        std::fs::write(folder.join("chat_template.jinja"), template).unwrap();
    });
    let tools = folder.path("tools.json");
    std::fs::write(&tools, r#"[{"type": "function", "function": {"name": "weather"}}]"#).unwrap();
    let tokens = |more: &[&str]| {
        let fixed = ["-m", &model, "-p", "Hi", "-n", "1", "--stats", "json"];
        stats(&answer(&[&fixed, more].concat()))["prompt_tokens"].as_u64().unwrap()
    };
    let plain = tokens(&[]);
    assert!(tokens(&["--tools", &tools]) > plain);
    assert!(tokens(&["--chat-template-kwargs", r#"{"style": "with some style, please"}"#]) > plain);
}

/// Costs decide the widths, never the tokens; what was learned is kept where the user says, and nowhere else.
#[test]
fn widths_that_are_chosen_do_not_change_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let evidence = folder.path().join("evidence");
    let files = || std::fs::read_dir(&evidence).map_or(0, Iterator::count);
    let arguments =
        ["-p", "What is a compiler?", "-n", "96", "--temp", "0.7", "--seed", "5", "--stats", "json", "-q"];
    let run = |more: &[&str]| answer(&[&arguments, more].concat());
    let classic = run(&["--no-draft"]);
    let cold = run(&["--no-draft-evidence"]);
    assert_eq!((cold.stdout.as_str(), files()), (classic.stdout.as_str(), 0));
    for _ in 0..2 {
        let kept = run(&["--draft-evidence", evidence.to_str().unwrap()]);
        assert_eq!((kept.stdout.as_str(), files()), (classic.stdout.as_str(), 1));
        let stats = stats(&kept);
        let rounds: u64 = stats["widths"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!((&stats["rounds"], &stats["seed"]), (&rounds.into(), &5.into()), "{stats}");
    }
}
