//! `mlxcel prove`, and that the gate keeps its word on MLX's operators too.

use std::fs;

use serde_json::Value;

use crate::{
    checkpoints::Folder,
    program::{command, end, run},
};

#[test]
fn both_ways_give_the_same_tokens() {
    let folder = Folder::new();
    let prompts = folder.path("prompts.jsonl");
    let lines = "import os\n{\"id\": \"list\", \"messages\": [{\"role\": \"user\", \"content\": \"What is a list?\"}]}\n";
    fs::write(&prompts, lines).unwrap();
    let prove = ["prove", "-n", "12", "--repeat", "2", "--prompts", &prompts];

    let text = run(&[&prove[..], &["--draft-block-size", "8"]].concat());
    assert_eq!(text.code, Some(0), "{text:?}");
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d+\.\d+ times as fast in", "[RATIO] times as fast in");
    settings.add_filter(r"\(\d+\.\d+ to \d+\.\d+", "([LOW] to [HIGH]");
    settings.add_filter(r"(?m) \d+\.\d+ +\d+\.\d+ +\d+\.\d+   equal$", " [RATIO] [LOW] [HIGH]   equal");
    settings.bind(|| insta::assert_snapshot!(text.all()));

    let json = run(&[&prove[..], &["--json", "--draft-block-size", "4", "--temp", "0"]].concat());
    assert_eq!(json.code, Some(0), "{json:?}");
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(report["equal"], true);
    let settings = report["settings"].as_array().unwrap();
    assert_eq!((settings.len(), &settings[0]["setting"]), (1, &"greedy".into()));
    let prompt = &settings[0]["prompts"][1];
    assert_eq!((&prompt["name"], &prompt["equal"]), (&"list".into(), &true.into()));
    assert_eq!(prompt["ratios"].as_array().unwrap().len(), 2);
    assert!(prompt["widths"]["4"].as_u64().unwrap() >= 1, "{prompt}");
}

#[test]
fn without_a_drafter_there_is_nothing_to_compare() {
    let folder = Folder::new();
    let target = folder.target("target", |_| {});
    let ended = run(&["prove", "-m", &target]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.starts_with("error: there is nothing to compare"), "{}", ended.stderr);
}

/// Which widths pass depends on the machine; that answers stay the same does not.
#[test]
fn on_mlx_the_verdicts_hold_and_are_kept() {
    let folder = Folder::new();
    let answer = |more: &[&str]| {
        let fixed =
            ["run", "--executor", "mlx-bf16", "-p", "def main():", "--raw", "-n", "24", "--stats", "json"];
        let child = command(&[&fixed, more].concat()).env("XDG_CACHE_HOME", folder.path("cache")).spawn();
        let ended = end(child.unwrap());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended
    };
    let classic = answer(&["--no-draft"]);
    assert!(!fs::exists(folder.path("cache")).unwrap(), "classic decoding needs no verdicts");
    let first = answer(&["--draft-width", "fixed", "--draft-block-size", "4"]);
    assert!(first.stderr.contains("(probed in "), "{}", first.stderr);
    let again = answer(&["--draft-width", "fixed", "--draft-block-size", "4"]);
    assert!(again.stderr.contains("(known from before)"), "{}", again.stderr);
    let stats: Value = serde_json::from_str(again.stderr.lines().last().unwrap()).unwrap();
    let (decline, used) = (&stats["decline"], stats["width"] == 4);
    assert_ne!(decline.is_null(), !used, "width 4 runs, or the line says why not: {stats}");
    for speculative in [first, again] {
        assert_eq!(speculative.stdout, classic.stdout);
    }
    let allowed = answer(&["--draft-width", "fixed", "--draft-block-size", "4", "--allow-inexact"]);
    let stats: Value = serde_json::from_str(allowed.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(stats["decline"], Value::Null);
    assert_eq!(stats["inexact"].is_null(), used, "what was passed over is said: {stats}");
}
