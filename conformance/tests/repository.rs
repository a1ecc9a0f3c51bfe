//! The tree stays small, and only families name families.

use conformance::repository::{LIMIT, code_lines, names_no_family, root, size, tracked_sizes};

const FAMILIES: [&str; 6] = ["lfm2", "qwen", "muse", "dflash", "dspark", "glimmer"];

#[test]
fn the_tree_stays_small() {
    size(&root(), LIMIT).unwrap();
}

/// Plant: a limit below what is there.
#[test]
fn a_tree_over_its_limit_is_seen() {
    if root().join(".git").exists() {
        let failure = size(&root(), 1 << 20).unwrap_err().to_string();
        assert!(failure.contains("the limit is 1048576"), "{failure}");
    }
}

#[test]
fn a_folder_without_git_has_no_size() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(tracked_sizes(folder.path()).unwrap(), None);
}

#[test]
fn only_families_name_families() {
    let folders = ["core/src", "server/src", "cli/src"].map(|folder| root().join(folder));
    names_no_family(&folders, &FAMILIES, ALLOWED).unwrap();
}

/// Lines that may name one: (end of the path, part of the line).
const ALLOWED: &[(&str, &str)] = &[
    // The one place of the program that links families.
    ("cli/src/families.rs", "use mlxcel_"),
    // The name that clients know the round loop by; drafters of all families have it.
    ("core/src/family/start.rs", "Self::Block => \"dflash\""),
    ("cli/src/args.rs", "possible values: dflash"),
];

/// Plant: a file that asks "is this Muse?", and what is no breach.
#[test]
fn a_named_family_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let source = "// Muse is fine here\nfn a() {}\nlet x = family.name == \"Muse\";\nuse allowed_lfm2;\n\n#[cfg(test)]\nmod tests {\n    use lfm2;\n}\n";
    std::fs::write(folder.path().join("a.rs"), source).unwrap();
    let folders = [folder.path().to_owned()];
    let failure = names_no_family(&folders, &FAMILIES, &[("a.rs", "allowed_lfm2")]).unwrap_err().to_string();
    assert!(failure.contains("a.rs:3:"), "{failure}");
    assert!(
        !failure.contains("a.rs:1:") && !failure.contains("a.rs:4:") && !failure.contains("a.rs:8:"),
        "{failure}"
    );
}

/// A family is a crate that can be read at a sitting: fewer than 600 lines of code, comments and unit tests aside.
#[test]
fn family_crates_stay_small() {
    let crates = std::fs::read_dir(root().join("families")).unwrap().map(|entry| entry.unwrap().path());
    let lines: Vec<_> = crates.map(|family| (code_lines(&family.join("src")).unwrap(), family)).collect();
    assert!(lines.len() >= 4, "{lines:?}");
    assert!(lines.iter().all(|(lines, _)| (50..600).contains(lines)), "{lines:?}");
}

/// Plant: what counts and what does not.
#[test]
fn lines_of_code_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let source = "//! A page.\n\n/// Says.\nfn a() {}\n    // why\nlet b = 1; // so\n\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
    std::fs::write(folder.path().join("a.rs"), source).unwrap();
    assert_eq!(code_lines(folder.path()).unwrap(), 2);
}
