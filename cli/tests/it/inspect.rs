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
