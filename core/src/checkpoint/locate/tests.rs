use std::collections::BTreeMap;

use serde_json::json;
use tempfile::TempDir;

use super::super::{Checkpoint, CheckpointWriter};
use super::*;

fn model(folder: &Path) {
    CheckpointWriter::new()
        .config(json!({"model_type": "test"}))
        .f32("a", &[1], &[1.0])
        .write(folder)
        .unwrap();
}

fn nowhere() -> HubCache {
    HubCache::default()
}

#[test]
fn every_spelling_of_a_folder_finds_it_and_names_it() {
    let root = TempDir::new().unwrap();
    for name in ["m", "модель 1", "a b", "\u{e9}", "e\u{301}", "it's", "v1.5-4bit"] {
        let folder = root.path().join(name);
        model(&folder);
        let text = folder.to_str().unwrap();
        for spelling in
            [text.to_owned(), format!("{text}/"), format!("{text}/."), format!("{text}/../{name}")]
        {
            let located = nowhere().locate(&spelling).unwrap();
            assert_eq!(located.name, name, "{spelling}");
            Checkpoint::open(located.folder).unwrap();
        }
    }
    assert_eq!(name_of(Path::new("/")), "model");
    let here = name_of(Path::new("."));
    assert!(!here.is_empty() && !here.contains('/') && here != ".", "{here}");
}

#[test]
fn a_model_in_the_hub_cache_is_found_by_its_name() {
    let root = TempDir::new().unwrap();
    let cache = HubCache::at(root.path());
    let repository = root.path().join("models--owner--some.model-4bit");
    for revision in ["abc", "def"] {
        model(&repository.join("snapshots").join(revision));
    }
    let find = || cache.locate("owner/some.model-4bit");
    let error = find().unwrap_err().to_string();
    assert!(error.contains("no refs/main and 2 snapshots"), "{error}");
    fs::create_dir(repository.join("refs")).unwrap();
    fs::write(repository.join("refs/main"), "def\n").unwrap();
    let located = find().unwrap();
    assert_eq!(located.folder, repository.join("snapshots/def"));
    assert_eq!(located.name, "owner/some.model-4bit");
    assert_eq!(name_of(&located.folder), "owner/some.model-4bit", "also by its path");
    for revision in ["gone", "", "../snapshots/abc", ".", "/"] {
        fs::write(repository.join("refs/main"), revision).unwrap();
        assert!(matches!(find(), Err(CheckpointError::NoSnapshot { .. })), "{revision}");
    }
    fs::remove_file(repository.join("refs/main")).unwrap();
    fs::remove_dir_all(repository.join("snapshots/abc")).unwrap();
    assert_eq!(find().unwrap().folder, repository.join("snapshots/def"));
}

#[test]
fn a_local_folder_goes_before_the_cache() {
    let root = TempDir::new().unwrap();
    let home = TempDir::new().unwrap();
    model(&home.path().join("models/m"));
    let vars = BTreeMap::from([("HOME", home.path().to_owned()), ("HF_HUB_CACHE", root.path().to_owned())]);
    let cache = HubCache::from_vars(|name| vars.get(name).cloned());
    assert_eq!(cache.locate("~/models/m").unwrap().folder, home.path().join("models/m"));
    assert!(cache.locate("~/models/other").is_err());
    assert!(cache.locate("~").is_err());
}

#[test]
fn the_cache_is_where_the_hub_keeps_it() {
    let root = |vars: &[(&str, &str)]| {
        let vars = vars.iter().copied().collect::<BTreeMap<_, _>>();
        HubCache::from_vars(|name| vars.get(name).map(PathBuf::from)).root
    };
    assert_eq!(root(&[]), None);
    let mut vars = vec![("HOME", "/h")];
    for (name, value, expected) in [
        ("HOME", "/h", "/h/.cache/huggingface/hub"),
        ("XDG_CACHE_HOME", "/x", "/x/huggingface/hub"),
        ("HF_HOME", "/f", "/f/hub"),
        ("HF_HUB_CACHE", "/c", "/c"),
    ] {
        vars.push((name, value));
        assert_eq!(root(&vars), Some(PathBuf::from(expected)));
    }
}

#[test]
fn what_is_not_there_says_where_it_was_looked_for() {
    let root = TempDir::new().unwrap();
    let cache = HubCache::at(root.path());
    let error = cache.locate("owner/name").unwrap_err();
    let CheckpointError::NotFound { looked, .. } = &error else { panic!("{error}") };
    assert_eq!(looked.len(), 2);
    assert_eq!(error.hint().unwrap(), "download it first: hf download owner/name");
    for odd in [
        "",
        " ",
        "/nowhere/at/all",
        "a/b/c",
        "../..x",
        "\u{0}",
        "a\\b",
        "-x/y",
        "a/..",
        "owner/",
        "https://h/o/n",
    ] {
        let error = cache.locate(odd).unwrap_err();
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn names_that_are_not_unicode_are_only_not_found() {
    use std::os::unix::ffi::OsStrExt;
    assert!(nowhere().locate(OsStr::from_bytes(b"\xff\xfe/\x80")).is_err());
    let root = TempDir::new().unwrap();
    let folder = root.path().join(OsStr::from_bytes(b"m\xff"));
    if fs::create_dir(&folder).is_ok() {
        model(&folder);
        Checkpoint::open(nowhere().locate(&folder).unwrap().folder).unwrap();
    }
}

#[test]
fn other_things_than_a_checkpoint_are_told_apart() {
    let root = TempDir::new().unwrap();
    let folder = root.path();
    let said = || Checkpoint::open(folder).unwrap_err().to_string().replace(folder.to_str().unwrap(), "m");
    let put = |name: &str| fs::write(folder.join(name), "{}").unwrap();
    assert!(said().starts_with("m: empty folder"));
    put("notes.txt");
    assert!(said().starts_with("m: no config.json among notes.txt"));
    put(CONFIG);
    assert!(said().starts_with("m: config.json and no weights"));
    put("pytorch_model.bin");
    assert!(said().starts_with("m: PyTorch weights (pytorch_model.bin)"));
    put("m-Q4_K_M.gguf");
    assert!(said().starts_with("m: GGUF weights (m-Q4_K_M.gguf)"));
    let file = folder.join(CONFIG);
    let error = nowhere().locate(&file).unwrap_err();
    assert!(matches!(error, CheckpointError::NotAFolder { .. }));
    assert_eq!(error.hint().unwrap(), format!("pass the folder: {}", folder.display()));
    assert!(nowhere().locate(file.join("below")).is_err());
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_dangling_ones_named() {
    use std::os::unix::fs::symlink;
    let root = TempDir::new().unwrap();
    let (blobs, folder, link) = (root.path().join("blobs"), root.path().join("m"), root.path().join("link"));
    model(&blobs);
    fs::create_dir(&folder).unwrap();
    for name in [CONFIG, "model.safetensors"] {
        symlink(blobs.join(name), folder.join(name)).unwrap();
    }
    symlink(&folder, &link).unwrap();
    let located = nowhere().locate(&link).unwrap();
    assert_eq!(located.name, "link");
    Checkpoint::open(located.folder).unwrap();
    fs::remove_file(blobs.join("model.safetensors")).unwrap();
    let error = Checkpoint::open(&folder).unwrap_err().to_string();
    assert!(
        error.contains("m/model.safetensors: link to ") && error.contains("blobs/model.safetensors"),
        "{error}"
    );
    fs::remove_file(folder.join(CONFIG)).unwrap();
    fs::remove_file(folder.join("model.safetensors")).unwrap();
    fs::remove_dir(&folder).unwrap();
    assert!(matches!(nowhere().locate(&link), Err(CheckpointError::DanglingLink { .. })));
}

#[test]
fn a_folder_in_place_of_a_file_is_refused() {
    let root = TempDir::new().unwrap();
    model(root.path());
    fs::create_dir(root.path().join("model-2.safetensors")).unwrap();
    let error = Checkpoint::open(root.path()).unwrap_err().to_string();
    assert!(error.contains("model-2.safetensors: not a regular file"), "{error}");
}
