//! Ways to write a model's path: all spellings of one folder load, and what is no model is told what it is.

use std::fs;

use crate::{
    checkpoints::{Folder, config},
    program::{Ended, command, end, run},
};

fn inspect_in(folder: &str, model: &str) -> Ended {
    end(command(&["inspect", model]).current_dir(folder).spawn().unwrap())
}

#[test]
fn every_spelling_of_a_folder_loads() {
    let folder = Folder::new();
    let model = folder.target("m", |_| {});
    let root = folder.path("");
    let absolute = model.as_str();
    let above = format!("../{}/m", root.trim_end_matches('/').rsplit('/').next().unwrap());
    for spelling in ["m", "m/", "./m", "m/.", "m//", above.as_str(), absolute] {
        let ended = inspect_in(&root, spelling);
        assert_eq!(ended.code, Some(0), "{spelling}: {ended:?}");
        assert!(ended.stdout.starts_with("name          m\n"), "{spelling}: {}", ended.stdout);
    }
    let inside = inspect_in(&model, ".");
    assert!(inside.stdout.starts_with("name          m\n"), "{inside:?}");
    let answer = run(&["run", "-m", &format!("{model}/"), "-p", "Hi", "-n", "2"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
}

#[test]
fn names_of_any_letters_load() {
    let folder = Folder::new();
    for name in ["модель 1", "a b", "\u{e9}", "e\u{301}", "it's", "quote\"d", "日本語"] {
        let model = folder.target(name, |_| {});
        let ended = run(&["inspect", &model]);
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        assert!(ended.stdout.starts_with(&format!("name          {name}\n")), "{name}: {}", ended.stdout);
    }
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_dangling_ones_named() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    let model = folder.target("m", |_| {});
    symlink(&model, folder.path("link")).unwrap();
    assert_eq!(run(&["inspect", &folder.path("link")]).code, Some(0));
    // As the download cache has them: every file is a link into a store.
    let (blobs, snapshot) = (folder.path("blobs"), folder.path("snapshot"));
    fs::rename(&model, &blobs).unwrap();
    fs::create_dir(&snapshot).unwrap();
    for file in fs::read_dir(&blobs).unwrap() {
        let file = file.unwrap();
        symlink(file.path(), format!("{snapshot}/{}", file.file_name().to_str().unwrap())).unwrap();
    }
    assert_eq!(run(&["run", "-m", &snapshot, "-p", "Hi", "-n", "2"]).code, Some(0));
    fs::remove_file(format!("{blobs}/model.safetensors")).unwrap();
    let dangling = run(&["inspect", &snapshot]);
    assert_eq!(dangling.code, Some(1), "{dangling:?}");
    let both = ["snapshot/model.safetensors: link to", "blobs/model.safetensors, which does not exist"];
    assert!(both.iter().all(|part| dangling.stderr.contains(part)), "{}", dangling.stderr);
}

#[test]
fn what_is_no_folder_of_a_model_is_told_apart() {
    let folder = Folder::new();
    let model = folder.target("m", |_| {});
    for (path, hint) in [
        (format!("{model}/config.json"), "pass the folder"),
        (format!("{model}/model.safetensors"), "pass the folder"),
        ("~/m".to_owned(), "pass the folder of a model, or owner/name"),
        (folder.path("none"), "pass the folder of a model, or owner/name"),
    ] {
        let ended = run(&["run", "-m", &path, "-p", "Hi"]);
        assert_eq!(ended.code, Some(1), "{path}: {ended:?}");
        assert!(ended.stderr.contains(&format!("hint: {hint}")), "{path}: {}", ended.stderr);
    }
}

/// Fields by which other loaders run code of the model: passed over, with a line each.
#[test]
fn code_in_a_model_folder_is_never_run() {
    let folder = Folder::new();
    let model = folder.target("m", |folder| {
        config("auto_map", serde_json::json!({"AutoModel": "evil.Model"}))(folder);
        config("model_file", serde_json::json!("evil.py"))(folder);
        fs::write(folder.join("evil.py"), "raise SystemExit").unwrap();
    });
    let ended = run(&["run", "-m", &model, "-p", "Hi", "-n", "2"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for field in ["auto_map", "model_file"] {
        let line = format!("config.json: {field} names code, which is passed over");
        assert_eq!(ended.stderr.matches(&line).count(), 1, "{}", ended.stderr);
    }
}
