//! The families that the program links, pinned: a new one is added here knowingly.

use mlxcel_core::family::{drafter_families, target_families};
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;
use mlxcel_muse as _;
use mlxcel_qwen as _;

#[test]
fn the_set_of_families_is_pinned() {
    let targets: Vec<_> = target_families().unwrap().iter().map(|family| family.name).collect();
    assert_eq!(targets, ["lfm2", "muse", "qwen"]);
    let drafters: Vec<_> = drafter_families().unwrap().iter().map(|family| family.name).collect();
    assert_eq!(drafters, ["dflash", "dspark", "muse-assistant"]);
}

#[test]
fn every_target_says_what_it_needs() {
    let drafters: Vec<_> = drafter_families().unwrap().iter().map(|family| family.name).collect();
    for family in target_families().unwrap() {
        assert!(!family.model_types.is_empty(), "{} claims no model_type", family.name);
        if let Some(required) = family.required_drafter_family {
            assert!(drafters.contains(&required), "{} needs {required}, which is not linked", family.name);
        }
    }
}
