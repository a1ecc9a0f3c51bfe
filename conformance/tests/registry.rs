//! The families that the program links, pinned: a new one is added here knowingly.

use conformance::random;
use mlxcel_core::family::{check_families, drafter_families, drafter_family, target_families, target_family};
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

/// Every target with every drafter of another family: refused before any weight is read, with both names.
#[test]
fn a_drafter_of_another_family_is_refused_by_name() {
    let pairs = [random::lfm2::pairs(), random::muse::pairs(), random::qwen::pairs()]
        .map(|mut all| all.swap_remove(0));
    for (i, target) in pairs.iter().enumerate() {
        for (j, drafter) in pairs.iter().enumerate() {
            let (target, drafter) = (target.target.open().unwrap(), drafter.drafter.open().unwrap());
            let (needs, is) = (target_family(&target).unwrap(), drafter_family(&drafter).unwrap());
            match check_families(&target, &drafter) {
                Ok(()) => assert_eq!(i, j),
                Err(error) => {
                    assert_ne!(i, j, "{error}");
                    let message = error.to_string();
                    for name in [needs.name, needs.required_drafter_family.unwrap(), is.name] {
                        assert!(message.contains(name), "{name}: {message}");
                    }
                }
            }
        }
    }
    // The two sides changed over.
    let (target, drafter) = (pairs[0].target.open().unwrap(), pairs[0].drafter.open().unwrap());
    let error = check_families(&drafter, &target).unwrap_err().to_string();
    assert!(error.contains("is a dspark drafter, not a target"), "{error}");
    let error = check_families(&target, &target).unwrap_err().to_string();
    assert!(error.contains("is a lfm2 target, not a drafter"), "{error}");
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
