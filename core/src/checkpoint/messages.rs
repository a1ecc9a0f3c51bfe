//! Every refusal, as people read it.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::tests::{opened, writer};
use super::*;

/// Collects refusals with the folder of the test taken out.
struct Book {
    root: TempDir,
    text: String,
}

impl Book {
    fn add<T: std::fmt::Debug>(&mut self, case: &str, result: Result<T>) {
        let error = result.unwrap_err();
        let hint = error.hint().map_or_else(String::new, |hint| format!("\n  hint: {hint}"));
        let root = self.root.path().to_str().unwrap();
        let here = std::env::current_dir().unwrap();
        let text = format!("{case}\n  {error}{hint}\n").replace(root, "/models");
        self.text += &text.replace(here.to_str().unwrap(), "/here");
    }

    fn config(&mut self, case: &str, text: &str, read: impl Fn(&Config) -> Result<()>) {
        self.add(case, Config::parse(CONFIG, text.as_bytes()).and_then(|config| read(&config)));
    }
}

#[test]
fn all_messages() {
    let root = TempDir::new().unwrap();
    let at = root.path().to_owned();
    let mut book = Book { root, text: String::new() };
    let cache = HubCache::at(at.join("hub"));

    book.add("no such folder", Checkpoint::open(at.join("m")));
    book.add("no such reference", cache.locate("owner/name"));
    fs::create_dir_all(at.join("hub/models--owner--name/refs")).unwrap();
    book.add("no snapshot", cache.locate("owner/name"));
    fs::write(at.join("hub/models--owner--name/refs/main"), "abc").unwrap();
    book.add("snapshot gone", cache.locate("owner/name"));
    fs::create_dir(at.join("m")).unwrap();
    book.add("empty folder", Checkpoint::open(at.join("m")));
    fs::write(at.join("m/model.gguf"), "").unwrap();
    book.add("other format", Checkpoint::open(at.join("m")));
    fs::write(at.join("m/model.safetensors"), "").unwrap();
    book.add("no config", Checkpoint::open(at.join("m")));
    book.add("a file", Checkpoint::open(at.join("m/model.gguf")));
    fs::write(at.join("m/config.json"), "{}").unwrap();
    book.add("empty weights", Checkpoint::open(at.join("m")));
    fs::write(at.join("m/model.safetensors"), [9, 0, 0, 0, 0, 0, 0, 0, b'{', b'}']).unwrap();
    book.add("cut in the header", Checkpoint::open(at.join("m")));
    fs::write(at.join("m/model.safetensors"), [2, 0, 0, 0, 0, 0, 0, 0, b'{', b'}', 1]).unwrap();
    book.add("bytes behind", Checkpoint::open(at.join("m")));
    let file = |header: &str| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    for (case, header) in [
        ("header not JSON", "{\"a\":"),
        ("unknown dtype", r#"{"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,1]}}"#),
        ("wrong size", r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#),
        ("cut in the data", r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#),
        ("absurd shape", r#"{"a":{"dtype":"F32","shape":[9999999999],"data_offsets":[0,4]}}"#),
    ] {
        fs::write(at.join("m/model.safetensors"), file(header)).unwrap();
        book.add(case, Checkpoint::open(at.join("m")));
    }
    fs::write(at.join("m/model.safetensors"), file("{}")).unwrap();
    fs::write(at.join("m/model.safetensors.index.json"), "{}").unwrap();
    book.add("empty index", Checkpoint::open(at.join("m")));
    let index = json!({"weight_map": {"a": "../m/model.safetensors"}});
    fs::write(at.join("m/model.safetensors.index.json"), index.to_string()).unwrap();
    book.add("shard outside", Checkpoint::open(at.join("m")));
    let index = json!({"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}});
    fs::write(at.join("m/model.safetensors.index.json"), index.to_string()).unwrap();
    book.add("shard missing", Checkpoint::open(at.join("m")));
    writer(json!({})).f32("b", &[1], &[1.0]).write(at.join("m")).unwrap();
    let index = json!({"weight_map": {"a": "model.safetensors"}});
    fs::write(at.join("m/model.safetensors.index.json"), index.to_string()).unwrap();
    book.add("tensor not in its shard", Checkpoint::open(at.join("m")));
    fs::remove_file(at.join("m/model.safetensors.index.json")).unwrap();
    fs::copy(at.join("m/model.safetensors"), at.join("m/model-b.safetensors")).unwrap();
    book.add("tensor in two shards", Checkpoint::open(at.join("m")));

    book.config("not JSON", "{\"a\": NaN}", |_| Ok(()));
    book.config("too large for f64", "{\"a\": 1e999}", |_| Ok(()));
    book.config("repeated key", "{\"a\": 1, \"a\": 2}", |_| Ok(()));
    book.config("not an object", "[1]", |_| Ok(()));
    let text =
        r#"{"text_config": {"hidden_size": 3000000000, "eps": "1e-5", "types": ["conv", 1], "tied": 1}}"#;
    book.config("too large", text, |c| c.section("text_config")?.dim("hidden_size").map(drop));
    book.config("missing", text, |c| c.section("text_config")?.dim("vocab_size").map(drop));
    book.config("a string for a number", text, |c| c.section("text_config")?.float("eps").map(drop));
    book.config("wrong entry", text, |c| c.section("text_config")?.list_of_str("types").map(drop));
    book.config("wrong boolean", text, |c| c.section("text_config")?.bool("tied").map(drop));
    book.config("section missing", text, |c| c.section("vision_config").map(drop));
    book.config("product", text, |c| c.product("heads * head_dim", &[1 << 20, 1 << 20]).map(drop));

    let quantized = |block: Value| opened(&writer(block).f32("a", &[1], &[1.0]));
    book.add("foreign", quantized(json!({"quantization_config": {"quant_method": "gptq", "bits": 4}})));
    book.add(
        "two blocks",
        quantized(json!({"quantization": {"bits": 4, "group_size": 64}, "quantization_config": {}})),
    );
    book.add("unknown bits", quantized(json!({"quantization": {"bits": 7, "group_size": 64}})));
    book.add(
        "bits of mxfp4",
        quantized(json!({"quantization": {"bits": 8, "group_size": 32, "mode": "mxfp4"}})),
    );

    let weights = writer(json!({})).f32("norm.weight", &[3], &[1.0; 3]).tensor(
        "up.weight",
        Dtype::U32,
        &[1, 8],
        vec![0; 32],
    );
    let checkpoint = opened(&weights).unwrap();
    book.add("wrong shape", checkpoint.vector("norm.weight", 4));
    book.add("wrong dtype", checkpoint.array_f32("up.weight", &[1, 8]));
    book.add("missing tensor", checkpoint.linear("down", 1, 64));
    book.add("missing scales", checkpoint.linear("up", 1, 64));
    book.add("unused", opened(&weights).and_then(|fresh| fresh.finish()));
    book.add("collision", opened(&weights).and_then(|fresh| fresh.with_names(|_| Some("x".to_owned()))));
    insta::assert_snapshot!(book.text);
}
