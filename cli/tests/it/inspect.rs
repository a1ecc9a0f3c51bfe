//! Commands that load no model.

use crate::{
    checkpoints::Folder,
    program::{filtered, run},
};

#[test]
fn the_families_that_are_linked() {
    insta::assert_snapshot!(run(&["families"]).all());
}

#[test]
fn what_a_checkpoint_holds() {
    let _filtered = filtered();
    insta::assert_snapshot!("inspect_inside", run(&["inspect"]).all());
    let folder = Folder::new();
    let drafter = folder.drafter("drafter", |_| {});
    insta::assert_snapshot!("inspect_drafter", run(&["inspect", &drafter]).all());
}

#[test]
fn completions_for_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]);
        assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""));
        assert!(script.stdout.contains("draft-block-size"), "{shell}");
    }
}

/// Text models inside vision models: the vision weights are skipped, which is said once.
#[test]
fn skipped_vision_weights_are_said() {
    for case in ["muse_glimmer", "qwen3_5"] {
        let folder = format!("{}/../conformance/golden/{case}/f32", env!("CARGO_MANIFEST_DIR"));
        let flags = ["--context", "1", "--prefill", "0", "-n", "1", "--widths", "1", "--repeat", "1"];
        let ended = run(&[&["bench", "-m", &folder], &flags[..]].concat());
        assert_eq!(ended.code, Some(0), "{case}: {ended:?}");
        let said = ended.stderr.lines().filter(|line| line.contains("vision weights are skipped"));
        assert_eq!(said.count(), 1, "{case}: {ended:?}");
    }
}
