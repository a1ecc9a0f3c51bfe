//! What cannot be served is refused in a few clear lines, with the right exit code and nothing on stdout.

use std::fmt::Write as _;

use std::fs;

use serde_json::json;

use crate::{
    checkpoints::{Folder, config, header, weights},
    program::{filtered, run},
};

/// Runs each case and puts all refusals into one snapshot.
fn refusals(name: &str, cases: &[(&str, Vec<&str>)]) {
    let _filtered = filtered();
    let mut all = String::new();
    for (what, arguments) in cases {
        let ended = run(arguments);
        assert_eq!(ended.stdout, "", "{what}");
        assert!(matches!(ended.code, Some(1 | 2)), "{what}: {ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{what}: {ended:?}");
        let lines: Vec<_> = ended.stderr.lines().filter(|line| !line.starts_with("load")).collect();
        write!(all, "# {what}: {}\n{}\n\n", ended.code.unwrap(), lines.join("\n")).unwrap();
    }
    insta::assert_snapshot!(name, all);
}

/// `run` with a prompt and more.
fn with<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["run", "-p", "Hi", "-n", "4"], arguments].concat()
}

#[test]
fn flags() {
    let long = "word ".repeat(5000);
    refusals(
        "refused_flags",
        &[
            ("width 0", with(&["--draft-block-size", "0"])),
            ("width -1", with(&["--draft-block-size", "-1"])),
            ("width 1000000000", with(&["--draft-block-size", "1000000000"])),
            ("width over the trained one", with(&["--draft-block-size", "17"])),
            ("width without a drafter", with(&["-m", "some/model", "--draft-block-size", "4"])),
            ("width 129", with(&["--draft-block-size", "129"])),
            ("width 256", with(&["--draft-block-size", "256"])),
            ("kind of drafting that is not built", with(&["--draft-kind", "mtp"])),
            ("kind without a drafter", with(&["-m", "some/model", "--draft-kind", "DFlash"])),
            ("bench: kind without a drafter", vec!["bench", "-m", "some/model", "--draft-kind", "dflash"]),
            ("bench: kind of drafting that is not built", vec!["bench", "--draft-kind", "eagle3"]),
            ("bench: width 0", vec!["bench", "--widths", "0"]),
            ("bench: width -1", vec!["bench", "--widths", "-1"]),
            ("bench: width over the trained one", vec!["bench", "--widths", "4,129"]),
            ("width and no draft", with(&["--draft-block-size", "4", "--no-draft"])),
            ("drafter without a target", with(&["--draft-model", "some/drafter"])),
            ("temperature NaN", with(&["--temp", "NaN"])),
            ("temperature below 0", with(&["--temp", "-0.5"])),
            ("temperature in words", with(&["--temp", "hot"])),
            ("infinite temperature", with(&["--temp", "1e999"])),
            ("top-p 0", with(&["--top-p", "0"])),
            ("no threads", with(&["--threads", "0"])),
            ("top-k below 0", with(&["--top-k", "-1"])),
            ("min-p over 1", with(&["--min-p", "1.5"])),
            ("seed of 65 bits", with(&["--seed", "18446744073709551616"])),
            ("no tokens", vec!["run", "-p", "Hi", "-n", "0"]),
            ("empty prompt", vec!["run", "-p", ""]),
            ("blank prompt", vec!["run", "-p", "  "]),
            ("empty raw prompt", vec!["run", "--raw", "-p", ""]),
            ("prompt longer than the context", vec!["run", "-p", &long]),
            ("model without a name", with(&["-m", ""])),
            ("repetition penalty 0", with(&["--repetition-penalty", "0"])),
            ("presence penalty over 2", with(&["--presence-penalty", "2.1"])),
            ("frequency penalty below -2", with(&["--frequency-penalty", "-2.1"])),
            ("frequency penalty NaN", with(&["--frequency-penalty", "nan"])),
            ("bias without a value", with(&["--logit-bias", "5"])),
            ("bias for id -1", with(&["--logit-bias", "-1=5"])),
            ("bias for half an id", with(&["--logit-bias", "1.5=5"])),
            ("bias for a word", with(&["--logit-bias", "abc=5"])),
            ("bias of a word", with(&["--logit-bias", "5=x"])),
            ("bias over 100", with(&["--logit-bias", "5=101"])),
            ("bias for an id past the vocabulary", with(&["--logit-bias", "90000000=4"])),
            ("bias for the first id past the vocabulary", with(&["--logit-bias", "4096=4"])),
            ("an empty stop string", with(&["--stop", ""])),
            ("more tokens at least than at most", with(&["--min-tokens", "5"])),
            ("log-probabilities of 21", with(&["--logprobs", "21", "--stats", "json"])),
            ("log-probabilities without a place", with(&["--logprobs", "2"])),
            ("tools that are not there", with(&["--tools", "/nonexistent/tools.json"])),
            ("variables that are no object", with(&["--chat-template-kwargs", "[1]"])),
            ("a variable that is not the user's", with(&["--chat-template-kwargs", r#"{"messages": 1}"#])),
            ("tools for raw text", with(&["--raw", "--tools", "tools.json"])),
            ("system message for raw text", with(&["--raw", "--system", "Be brief."])),
            ("unknown flag", with(&["--temprature", "1"])),
            ("two prompts", with(&["-p", "Ho"])),
            ("unknown shell", vec!["completions", "cmd"]),
        ],
    );
}

#[test]
fn folders() {
    let folder = Folder::new();
    let (missing, empty, other) = (folder.path("missing"), folder.path("empty"), folder.path("gguf"));
    fs::create_dir(&empty).unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(format!("{other}/model.gguf"), "GGUF").unwrap();
    let bare = folder.target("bare", |folder| fs::remove_file(folder.join("config.json")).unwrap());
    let mute = folder.target("mute", |folder| fs::remove_file(folder.join("tokenizer.json")).unwrap());
    let (file, target, drafter) = (
        format!("{mute}/model.safetensors"),
        folder.target("target", |_| {}),
        folder.drafter("drafter", |_| {}),
    );
    refusals(
        "refused_folders",
        &[
            ("no such folder", with(&["-m", &missing])),
            ("not in the cache", with(&["-m", "some-owner/some-model"])),
            ("a file", with(&["-m", &file])),
            ("an empty folder", with(&["-m", &empty])),
            ("another format", with(&["-m", &other])),
            ("no config", with(&["-m", &bare])),
            ("no tokenizer", with(&["-m", &mute])),
            ("a drafter as target", with(&["-m", &drafter])),
            ("a target as drafter", with(&["-m", &target, "--draft-model", &target])),
            ("no such drafter", with(&["-m", &target, "--draft-model", &missing])),
            ("inspect: no such folder", vec!["inspect", &missing]),
        ],
    );
}

#[test]
fn checkpoints() {
    let folder = Folder::new();
    let cut = folder.target("cut", weights(|bytes| bytes.truncate(bytes.len() / 2)));
    let short = folder.target("short", weights(|bytes| bytes.truncate(5)));
    let garbage = folder.target("garbage", weights(|bytes| bytes[8..64].fill(b'x')));
    let huge = folder.target("huge", weights(|bytes| bytes[..8].fill(0xff)));
    let missing = folder
        .target("missing", header("model.layers.0.conv.conv.weight", "model.layers.0.conv.conv.weighs"));
    let hidden = folder.target("hidden", config("hidden_size", json!(512)));
    let negative = folder.target("negative", config("hidden_size", json!(-1)));
    let layers = folder.target("layers", config("num_hidden_layers", json!(1_000_000_000)));
    let vocab = folder.target("vocab", config("vocab_size", json!(1e300)));
    let words = folder.target("words", config("num_attention_heads", json!("four")));
    let heads = folder.target("heads", config("num_attention_heads", json!(0)));
    let kind = folder.target("kind", config("model_type", json!("unheard_of")));
    let not_json = folder.target("not_json", |folder| fs::write(folder.join("config.json"), "{").unwrap());
    refusals(
        "refused_checkpoints",
        &[
            ("weights cut in half", with(&["-m", &cut])),
            ("weights of 5 bytes", with(&["-m", &short])),
            ("header that is no JSON", with(&["-m", &garbage])),
            ("header of 2^64 - 1 bytes", with(&["-m", &huge])),
            ("tensor missing", with(&["-m", &missing])),
            ("shapes of another size", with(&["-m", &hidden])),
            ("hidden size below 0", with(&["-m", &negative])),
            ("a billion layers", with(&["-m", &layers])),
            ("vocabulary of 1e300", with(&["-m", &vocab])),
            ("heads in words", with(&["-m", &words])),
            ("no heads", with(&["-m", &heads])),
            ("unknown model type", with(&["-m", &kind])),
            ("config that is no JSON", with(&["-m", &not_json])),
        ],
    );
}

#[test]
fn pairs() {
    let folder = Folder::new();
    let target = folder.target("target", |_| {});
    let cut = folder.drafter("cut", weights(|bytes| bytes.truncate(bytes.len() - 1)));
    let taps = folder.drafter(
        "taps",
        config(
            "dflash_config",
            json!({"mask_token_id": 5, "target_layer_ids": [1, 3, 5, 7, 10], "num_target_layers": 10}),
        ),
    );
    let layers = folder.drafter(
        "layers",
        config(
            "dflash_config",
            json!({"mask_token_id": 5, "target_layer_ids": [1, 3, 5, 7, 8], "num_target_layers": 12}),
        ),
    );
    let vocab = folder.drafter("vocab", config("vocab_size", json!(8192)));
    let block = folder.drafter("block", config("block_size", json!(0)));
    let pair = |drafter| with(&["-m", &target, "--draft-model", drafter]);
    refusals(
        "refused_pairs",
        &[
            ("drafter cut", pair(&cut)),
            ("taps past the last layer", pair(&taps)),
            ("for a target of 12 layers", pair(&layers)),
            ("for another vocabulary", pair(&vocab)),
            ("block size 0", pair(&block)),
        ],
    );
}
