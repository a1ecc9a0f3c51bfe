//! Every refusal of a checkpoint or a pair, as people read it, in one file. A variant without a row here fails the test; a
//! new variant does not compile until it is listed.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use conformance::{
    load,
    random::{self, Packed, RandomModel},
    spelling::byte_level,
};
use mlxcel_core::{
    Error, Width,
    checkpoint::{Checkpoint, CheckpointError, CheckpointWriter, Dtype, HubCache},
    family::{
        DraftFlags, DraftKind, PairingError, RegistryError, StartError, TargetFamily, check_targets,
        load_drafter, load_target,
    },
    nn::Executor,
    text::{EosError, FilesError, TextError, TextFiles, TextModel, TokenizerError},
};
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;
use serde_json::{Value, json};

/// Lists the variants of an error, and names that of a value.
macro_rules! variants {
    ($list:ident, $name:ident, $error:ident: $($variant:ident),+ $(,)?) => {
        const $list: &[&str] = &[$(stringify!($variant)),+];

        fn $name(error: &$error) -> &'static str {
            match error {
                $($error::$variant { .. } => stringify!($variant)),+
            }
        }
    };
}

variants!(CHECKPOINT, checkpoint_variant, CheckpointError: NotFound, NoSnapshot, NotAFolder, NotACheckpoint, DanglingLink,
    Io, Json, Field, Malformed, Tensor, MissingTensor, MissingShard, NotInShard, DuplicateTensor, NameCollision,
    UnusedTensors, ForeignQuantization);
variants!(PAIRING, pairing_variant, PairingError: Family, Hidden, Layers, Vocab, NoTaps, TapTwice, TapRange, MaskToken,
    Width);
variants!(REGISTRY, registry_variant, RegistryError: Duplicate, DuplicateModelType, UnknownModelType, DrafterAsTarget,
    TargetAsDrafter, UnknownDrafter);
variants!(START, start_variant, StartError: UnknownKind, NeedsDrafter, Width);
variants!(FILES, files_variant, FilesError: Missing, Read, Json, NotAnObject);
variants!(EOS, eos_variant, EosError: Files, NotAnId, None);
variants!(TOKENIZER, tokenizer_variant, TokenizerError: Parse, Decoder, Size, Encode);

/// The refusals so far, by error and variant.
#[derive(Default)]
struct Book {
    rows: BTreeMap<(&'static str, &'static str), Vec<String>>,
    root: String,
}

impl Book {
    fn add(
        &mut self,
        of: &'static str,
        variant: &'static str,
        error: &dyn std::error::Error,
        hint: Option<String>,
    ) {
        let mut text = error.to_string();
        if let Some(cause) =
            error.source().map(ToString::to_string).filter(|cause| !text.ends_with(cause.as_str()))
        {
            write!(text, "\n  caused by: {cause}").unwrap();
        }
        if let Some(hint) = hint {
            write!(text, "\nhint: {hint}").unwrap();
        }
        let here = std::env::current_dir().unwrap();
        let text = text.replace(&self.root, "/models").replace(here.to_str().unwrap(), "/here");
        self.rows.entry((of, variant)).or_default().push(text);
    }

    fn checkpoint<T>(&mut self, result: Result<T, CheckpointError>) {
        let error = result.err().unwrap();
        self.add("CheckpointError", checkpoint_variant(&error), &error, error.hint());
    }

    fn core<T>(&mut self, result: Result<T, Error>) {
        match result.err().unwrap() {
            Error::Checkpoint(error) => self.checkpoint::<()>(Err(error)),
            Error::Pairing(error) => self.add("PairingError", pairing_variant(&error), &error, None),
            Error::Registry(error) => self.add("RegistryError", registry_variant(&error), &error, None),
            other => panic!("refused for another reason: {other}"),
        }
    }

    fn start<T>(&mut self, result: Result<T, StartError>) {
        let error = result.err().unwrap();
        self.add("StartError", start_variant(&error), &error, None);
    }

    fn text<T>(&mut self, result: Result<T, TextError>) {
        match result.err().unwrap() {
            TextError::Eos(error) => {
                self.add("EosError", eos_variant(&error), &error, None);
                if let EosError::Files(error) = &error {
                    self.add("FilesError", files_variant(error), error, None);
                }
            }
            TextError::Tokenizer(error) => {
                self.add("TokenizerError", tokenizer_variant(&error), &error, None);
            }
            other => panic!("refused for another reason: {other}"),
        }
    }

    /// Whether every variant of an error has a row.
    fn covers(&self, of: &'static str, variants: &[&'static str]) {
        for variant in variants {
            assert!(self.rows.contains_key(&(of, *variant)), "no row for {of}::{variant}");
        }
    }

    fn print(&self) -> String {
        let mut all = String::new();
        for ((of, variant), texts) in &self.rows {
            for text in texts {
                writeln!(all, "{of}::{variant}\n{text}\n").unwrap();
            }
        }
        all
    }
}

/// The config with one field changed.
fn changed(config: &Value, pointer: &str, value: Value) -> Value {
    let mut config = config.clone();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    config.pointer_mut(parent).unwrap()[field] = value;
    config
}

fn folders(book: &mut Book, at: &Path) {
    let cache = HubCache::at(at.join("hub"));
    book.checkpoint(Checkpoint::open(at.join("missing")));
    book.checkpoint(cache.locate("owner/name"));
    fs::create_dir_all(at.join("hub/models--owner--name/refs")).unwrap();
    book.checkpoint(cache.locate("owner/name"));
    fs::create_dir(at.join("m")).unwrap();
    book.checkpoint(Checkpoint::open(at.join("m")));
    fs::write(at.join("m/model.gguf"), "").unwrap();
    book.checkpoint(Checkpoint::open(at.join("m")));
    book.checkpoint(Checkpoint::open(at.join("m/model.gguf")));
    fs::remove_file(at.join("m/model.gguf")).unwrap();
    fs::write(at.join("m/config.json"), "{}").unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(at.join("blobs/gone"), at.join("m/model.safetensors")).unwrap();
        book.checkpoint(Checkpoint::open(at.join("m")));
        fs::remove_file(at.join("m/model.safetensors")).unwrap();
    }
    fs::create_dir(at.join("m/model.safetensors")).unwrap();
    book.checkpoint(Checkpoint::open(at.join("m")));
    fs::remove_dir(at.join("m/model.safetensors")).unwrap();
    fs::write(at.join("m/model.safetensors"), [1, 2, 3]).unwrap();
    book.checkpoint(Checkpoint::open(at.join("m")));
    fs::write(at.join("m/config.json"), "{").unwrap();
    book.checkpoint(Checkpoint::open(at.join("m")));
    let file = at.join("a-file");
    fs::write(&file, "").unwrap();
    book.checkpoint(CheckpointWriter::new().write(file.join("below")));
}

fn weights(book: &mut Book, at: &Path) {
    let writer = || CheckpointWriter::new().config(json!({})).f32("a", &[1], &[1.0]).f32("b", &[1], &[2.0]);
    let folder = at.join("w");
    let index = folder.join("model.safetensors.index.json");
    writer().tensors_per_shard(1).write(&folder).unwrap();
    fs::remove_file(folder.join("model-00002-of-00002.safetensors")).unwrap();
    book.checkpoint(Checkpoint::open(&folder));
    writer().tensors_per_shard(1).write(&folder).unwrap();
    let map = json!({"weight_map": {"a": "model-00002-of-00002.safetensors"}});
    fs::write(&index, map.to_string()).unwrap();
    book.checkpoint(Checkpoint::open(&folder));
    fs::write(&index, "{}").unwrap();
    book.checkpoint(Checkpoint::open(&folder));
    fs::remove_file(&index).unwrap();
    fs::copy(folder.join("model-00001-of-00002.safetensors"), folder.join("model-copy.safetensors")).unwrap();
    book.checkpoint(Checkpoint::open(&folder));
    let opened = |writer: CheckpointWriter| {
        let folder = tempfile::tempdir().unwrap();
        writer.write(folder.path()).unwrap();
        Checkpoint::open(folder.path())
    };
    book.checkpoint(opened(writer()).unwrap().with_names(|_| Some("x".to_owned())));
    book.checkpoint(opened(writer()).unwrap().finish());
    book.checkpoint(opened(writer().config(json!({"quantization_config": {"quant_method": "awq"}}))));
    book.checkpoint(opened(writer().config(json!({"quantization": {"bits": 7, "group_size": 64}}))));
    let packed = writer().tensor("p.weight", Dtype::U32, &[1, 8], vec![0; 32]);
    book.checkpoint(opened(packed).unwrap().linear("p", 1, 64).map(drop));
}

/// What each config or file that is wrong in one way is told.
fn models(book: &mut Book) {
    let pair = random::lfm2::stored(Packed::No, true);
    let RandomModel { config, tensors } = &pair.target;
    for (field, value) in [
        ("hidden_size", json!(48)),
        ("hidden_size", json!("64")),
        ("num_hidden_layers", json!(1_000_000_000)),
        ("layer_types", json!(["conv"])),
        ("layer_types", json!(["conv", "conv", "conv", "conv"])),
        ("rope_parameters", json!({"rope_type": "yarn"})),
        ("intermediate_size", Value::Null),
        ("vocab_size", json!(65)),
        ("tie_embedding", json!(false)),
        ("model_type", json!(3)),
        ("model_type", json!("unheard_of")),
        ("model_type", Value::Null),
    ] {
        book.core(load::target(pair.target.open_as(changed(config, &format!("/{field}"), value)).unwrap()));
    }
    let extra = RandomModel {
        config: config.clone(),
        tensors: tensors.clone().f32("model.layers.9.x", &[1], &[0.0]),
    };
    book.core(load::target(extra.open().unwrap()));
    let whole = RandomModel {
        config: config.clone(),
        tensors: tensors.clone().tensor("model.embedding_norm.weight", Dtype::I32, &[64], vec![0; 256]),
    };
    book.core(load::target(whole.open().unwrap()));

    let target = load::target(pair.target.open().unwrap()).unwrap();
    let executor = Executor::detect().unwrap();
    let own = &pair.drafter.config;
    for misfit in random::dspark::misfits(own) {
        let opened = pair.drafter.open_as(misfit.config).unwrap();
        book.core(load_drafter(opened, target.as_ref(), executor));
    }
    for (pointer, value) in [
        ("/markov_rank", json!(0)),
        ("/markov_head_type", json!("gated")),
        ("/sample_from_anchor", json!(false)),
        ("/draft_vocab_size", json!(32)),
        ("/block_size", json!(0)),
        ("/dflash_config/mask_token_id", json!(-1)),
        ("/layer_types", json!(["full_attention", "sliding_attention"])),
    ] {
        let opened = pair.drafter.open_as(changed(own, pointer, value)).unwrap();
        book.core(load_drafter(opened, target.as_ref(), executor));
    }
    book.core(load_target(pair.drafter.open().unwrap(), executor));
    book.core(load_drafter(pair.target.open().unwrap(), target.as_ref(), executor));
    let unknown = pair.drafter.open_as(json!({"model_type": "unheard_of"})).unwrap();
    book.core(load_drafter(unknown, target.as_ref(), executor));
}

fn text(book: &mut Book) {
    let good = byte_level(&[], &["<|end|>"], 300);
    let bytes = |value: &Value| Some(value.to_string().into_bytes().into());
    let files = |tokenizer: &Value| TextFiles {
        tokenizer_json: tokenizer.to_string().into_bytes().into(),
        generation_config: bytes(&json!({"eos_token_id": 1})),
        ..TextFiles::default()
    };
    book.text(TextModel::load(&TextFiles { generation_config: None, ..files(&good) }));
    let with = |generation: Value| TextFiles { generation_config: bytes(&generation), ..files(&good) };
    book.text(TextModel::load(&with(json!({"eos_token_id": "</s>"}))));
    book.text(TextModel::load(&with(json!([]))));
    book.text(TextModel::load(&TextFiles { generation_config: Some(b"{"[..].into()), ..files(&good) }));
    book.text(TextModel::load(&files(&json!({}))));
    let decoder = changed(
        &good,
        "/decoder",
        json!({"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": true}),
    );
    book.text(TextModel::load(&files(&decoder)));
    let empty = changed(&changed(&good, "/model/vocab", json!({})), "/added_tokens", json!([]));
    book.text(TextModel::load(&files(&empty)));
    // The library refuses no text that a byte-level tokenizer is given.
    let error = TokenizerError::Encode { detail: "what the tokenizer said".to_owned() };
    book.text::<()>(Err(error.into()));
    let missing = TextFiles::load(|_| Ok(None)).unwrap_err();
    book.add("FilesError", files_variant(&missing), &missing, None);
    let denied = TextFiles::load(|_| Err(std::io::ErrorKind::PermissionDenied.into())).unwrap_err();
    book.add("FilesError", files_variant(&denied), &denied, None);
}

fn registry(book: &mut Book) {
    fn never(
        _: &TargetFamily,
        _: Checkpoint,
        _: Executor,
    ) -> mlxcel_core::Result<Box<dyn mlxcel_core::family::Target>> {
        Err(Error::EmptyPrompt)
    }
    let family = |name, model_types| TargetFamily {
        name,
        model_types,
        required_drafter_family: None,
        supports_batched: false,
        states: &[],
        load: never,
    };
    let (a, b, c) = (family("a", &["x"]), family("a", &["y"]), family("c", &["x"]));
    book.core(check_targets(&[&a, &b]).map_err(Error::from));
    book.core(check_targets(&[&a, &c]).map_err(Error::from));
}

fn flags(book: &mut Book) {
    book.start("mtp".parse::<DraftKind>());
    let flags = DraftFlags { kind: None, block_size: Width::new(99) };
    book.start(flags.check_drafter(false));
    let pair = random::lfm2::stored(Packed::No, true).load().unwrap();
    book.start(flags.check_width(pair.drafter.spec()));
}

#[test]
fn every_refusal_has_a_message_that_names_both_sides() {
    let root = tempfile::tempdir().unwrap();
    let mut book = Book { root: root.path().to_str().unwrap().to_owned(), ..Book::default() };
    folders(&mut book, root.path());
    weights(&mut book, root.path());
    models(&mut book);
    text(&mut book);
    registry(&mut book);
    flags(&mut book);
    for (of, variants) in [
        ("CheckpointError", CHECKPOINT),
        ("PairingError", PAIRING),
        ("RegistryError", REGISTRY),
        ("StartError", START),
        ("FilesError", FILES),
        ("EosError", EOS),
        ("TokenizerError", TOKENIZER),
    ] {
        book.covers(of, variants);
    }
    let all = book.print();
    insta::with_settings!({ filters => vec![(r"/[^ \n]*/\.tmp[A-Za-z0-9]+", "[DIR]")] }, {
        insta::assert_snapshot!(all);
    });
}
