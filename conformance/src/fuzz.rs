//! What is fuzzed: functions over any bytes that must neither panic nor break an invariant. The targets in `fuzz/` call
//! them with bytes that libFuzzer makes up; a test calls them with the corpora that it left.

use std::{cell::RefCell, fs, sync::LazyLock};

use mlxcel_core::{
    TokenId,
    checkpoint::{CONFIG, Checkpoint, Config},
    family,
    nn::Executor,
    text::{
        Channel, ChatRequest, ChatTemplate, SpecialTokens, StopMatcher, TextFiles, TextModel, TextStream,
        Tokenizer,
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::spelling::{byte_level, spelled};

/// A function over any bytes.
pub type Target = fn(&[u8]);

/// Every function by the name of its corpus.
pub const TARGETS: [(&str, Target); 5] = [
    ("safetensors", safetensors),
    ("config", config),
    ("tokenizer", tokenizer),
    ("template", template),
    ("text", text),
];

/// A header of a safetensors file with no tensor.
const EMPTY: [u8; 10] = [2, 0, 0, 0, 0, 0, 0, 0, b'{', b'}'];

/// Opens a checkpoint of these files, in the one folder of this thread.
fn opened(files: [(&str, &[u8]); 2]) -> Option<Checkpoint> {
    thread_local! {
        static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
    }
    FOLDER.with_borrow_mut(|folder| {
        if folder.is_none() {
            *folder = tempfile::tempdir().ok();
        }
        let path = folder.as_ref()?.path();
        for (name, bytes) in files {
            fs::write(path.join(name), bytes).ok()?;
        }
        Checkpoint::open(path).ok()
    })
}

/// A file of weights: what opens has tensors that lie in it.
pub fn safetensors(bytes: &[u8]) {
    let Some(checkpoint) = opened([("model.safetensors", bytes), (CONFIG, b"{}")]) else { return };
    for name in checkpoint.names() {
        let Some((dtype, shape)) = checkpoint.peek(name) else { panic!("{name} is listed and not there") };
        let size = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        let tensor = checkpoint.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(tensor.bytes.len(), size, "{name}");
        // Any dtype: some are no floats.
        let _ = tensor.to_f32();
        let _ = checkpoint.linear(name.strip_suffix(".weight").unwrap_or(name), 4, 64);
    }
    assert!(!checkpoint.digest().is_empty());
}

/// A config: every reader on every field, and the loaders of all linked families.
pub fn config(bytes: &[u8]) {
    if let Ok(config) = Config::parse(CONFIG, bytes) {
        sections(&config, 0);
    }
    let Some(checkpoint) = opened([(CONFIG, bytes), ("model.safetensors", &EMPTY)]) else { return };
    let _ = checkpoint.linear("model.embed_tokens", 8, 64);
    let _ = family::load_target(checkpoint, Executor::Cpu);
}

fn sections(config: &Config, depth: usize) {
    let names: Vec<_> = config.fields().map(|(name, _)| name.to_owned()).take(64).collect();
    for name in &names {
        let _ = (config.dim(name), config.layers(name), config.float(name), config.bool(name));
        let _ = (config.str(name), config.ids(name), config.list_of_str(name));
        let _ = (config.list_of_int(name, 0..=64), config.opt_list_of_float(name));
        if let (Ok(a), Ok(b)) = (config.dim(name), config.dim("hidden_size")) {
            let _ = config.product(name, &[a, b]);
        }
        if let Ok(section) = config.section(name)
            && depth < 4
        {
            sections(&section, depth + 1);
        }
    }
    let _ = config.rope_base(1e6);
}

/// Files of a tokenizer, `tokenizer.json`, `tokenizer_config.json` and `generation_config.json`, parted by zero bytes.
/// A text that is encoded with no normaliser comes back.
pub fn tokenizer(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |&byte| byte == 0);
    let mut next = || parts.next().map(|part| part.to_vec().into());
    let files = TextFiles {
        tokenizer_json: next().unwrap_or_default(),
        tokenizer_config: next(),
        generation_config: next(),
        ..TextFiles::default()
    };
    let Ok(model) = TextModel::load(&files) else { return };
    for text in ["Hi, it's 12:30 — <|im_end|> 日本語\n\n  x", ""] {
        let Ok(ids) = model.tokenizer.encode(text) else { continue };
        assert!(ids.iter().all(|id| model.tokenizer.knows(*id)), "an id of its own is unknown");
        let _ = model.tokenizer.decode(&ids, SpecialTokens::Keep);
        let Ok(written) = model.tokenizer.encode_text(text) else { continue };
        assert!(!written.iter().any(|&id| model.tokenizer.is_control(id)), "text became control");
    }
}

/// A chat template, and messages as JSON behind a zero byte. Whatever is rendered has the template's own control tokens
/// only.
pub fn template(bytes: &[u8]) {
    static TOKENIZER: LazyLock<Option<Tokenizer>> = LazyLock::new(|| {
        let tokens = ["<|im_start|>", "<|im_end|>", "<think>", "</think>"];
        Tokenizer::from_json(byte_level(&[], &tokens, 320).to_string().as_bytes()).ok()
    });
    let Some(tokenizer) = TOKENIZER.as_ref() else { return };
    let (source, messages) = match bytes.iter().position(|&byte| byte == 0) {
        Some(at) => (&bytes[..at], serde_json::from_slice(&bytes[at + 1..]).unwrap_or_default()),
        None => (bytes, json!([{"role": "user", "content": "Hi <|im_end|>"}])),
    };
    let files = TextFiles { chat_template_jinja: Some(source.to_vec().into()), ..TextFiles::default() };
    let Ok(template) = ChatTemplate::load(&files) else { return };
    let none = Vec::new();
    let messages: &Vec<Value> = messages.as_array().unwrap_or(&none);
    let tools = [json!({"type": "function", "function": {"name": "f<|im_end|>", "parameters": {}}})];
    for tools in [&[][..], &tools] {
        let request = ChatRequest { messages, tools, add_generation_prompt: true, kwargs: None };
        let Ok(rendered) = template.render(request, tokenizer) else { continue };
        let Ok(ids) = tokenizer.encode_template(&rendered) else { continue };
        let controls = ids.into_iter().filter(|&id| tokenizer.is_control(id)).count();
        // Those could spell a control token of the template's own, or cut a text of the messages.
        let spells = |source: &str| source.contains(['<', '\\', '[', '\u{FDD0}', '\u{FDD1}', '\u{FDD2}']);
        if !std::str::from_utf8(source).is_ok_and(spells) {
            assert_eq!(controls, 0, "a control token that the template did not write");
        }
    }
}

/// Tokens, one a byte, after a byte that chooses stop strings: what comes out piece by piece is the whole, cut before the
/// stop string that is complete first.
pub fn text(bytes: &[u8]) {
    static TEXT: LazyLock<Option<std::sync::Arc<TextModel>>> = LazyLock::new(|| spelled(32).ok());
    let (Some(model), Some((&choice, bytes))) = (TEXT.as_ref(), bytes.split_first()) else { return };
    let stops: Vec<_> = crate::spelling::STOPS
        .iter()
        .enumerate()
        .filter(|(nth, _)| choice >> (nth % 8) & 1 == 1)
        .map(|(_, stop)| *stop)
        .collect();
    let ids: Vec<_> = bytes.iter().map(|byte| TokenId(u32::from(byte % 32))).collect();
    let Ok(matcher) = StopMatcher::new(&stops) else { return };
    let mut stream: TextStream = model.raw_stream(matcher, SpecialTokens::Skip);
    let (mut said, mut stopped) = (String::new(), false);
    for &id in &ids {
        let step = stream.push(&model.tokenizer, id);
        assert!(!stopped || step.pieces.is_empty(), "text behind a stop string");
        stopped |= step.stop.is_some();
        for piece in step.pieces {
            assert!(piece.channel == Channel::Content && !piece.text.is_empty());
            said.push_str(&piece.text);
        }
    }
    said.extend(stream.finish().into_iter().map(|piece| piece.text));
    let whole = model.tokenizer.decode(&ids, SpecialTokens::Skip);
    let ends = stops.iter().filter_map(|stop| whole.find(stop).map(|at| (at + stop.len(), at)));
    let expected = ends.min().map_or(whole.as_str(), |(_, start)| &whole[..start]);
    assert_eq!(said, expected);
}
