//! The guide shows what is compiled and nothing else.

#![expect(clippy::unwrap_used, reason = "a test says so by failing")]

use std::{fs, path::Path};

const GUIDE: &str = include_str!("../../../docs/adding-a-family.md");

/// Files that the guide quotes.
const FILES: [&str; 8] = [
    "Cargo.toml",
    "src/lib.rs",
    "src/config.rs",
    "src/model.rs",
    "tests/my_family.rs",
    "../outside/Cargo.toml",
    "../outside/build.rs",
    "../outside/src/main.rs",
];

/// The blocks of `text` between fences, those of shell commands aside.
fn blocks(text: &str) -> Vec<&str> {
    let fenced = text.split("\n```").skip(1).step_by(2);
    let code = fenced.filter(|block| !block.starts_with("sh\n"));
    code.filter_map(|block| block.split_once('\n')).map(|(_, code)| code).collect()
}

/// Blocks of `guide` that stand in none of the files.
fn not_found(guide: &str) -> Vec<&str> {
    let read = |file: &&str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let files: Vec<String> = FILES.iter().map(read).collect();
    blocks(guide).into_iter().filter(|block| !files.iter().any(|file| file.contains(block))).collect()
}

#[test]
fn every_block_of_the_guide_is_compiled() {
    assert!(blocks(GUIDE).len() >= 6, "{} blocks", blocks(GUIDE).len());
    assert_eq!(not_found(GUIDE), [""; 0]);
}

/// Plant: a block that says something else.
#[test]
fn a_block_that_is_not_compiled_is_seen() {
    assert_eq!(not_found("\n```rust\nlet other = 1;\n```\n"), ["let other = 1;"]);
}
