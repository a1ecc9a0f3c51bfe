//! The corpora that fuzzing left, as plain tests: every input once. `fuzz/README.md` says how they were made.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

use std::{fs, path::Path};

use conformance::fuzz::TARGETS;
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;
use mlxcel_muse as _;
use mlxcel_qwen as _;

#[test]
fn no_input_of_a_corpus_breaks_anything() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for (name, target) in TARGETS {
        let mut inputs: Vec<_> =
            fs::read_dir(corpora.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        inputs.sort();
        assert!(inputs.len() >= 5, "{name}: {} inputs", inputs.len());
        for input in inputs {
            let bytes = fs::read(&input).unwrap();
            // The test's own output names the input that fails.
            println!("{}", input.display());
            target(&bytes);
        }
    }
}
