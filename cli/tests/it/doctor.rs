//! `mlxcel doctor`: whole and broken pairs.

use insta::internals::SettingsBindDropGuard;
use serde_json::Value;

use crate::{
    checkpoints::{Folder, config, first_number, weights},
    program::run,
};

const QUICK: [&str; 5] = ["doctor", "--context", "24", "--repeat", "1"];

fn doctor(more: &[&str]) -> crate::program::Ended {
    run(&[&QUICK, more].concat())
}

/// Leaves out what depends on the machine: its rows, times, and the advice that follows from them.
fn filtered() -> SettingsBindDropGuard {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"(?m)^(machine|program|executor)( +).*$", "$1$2[MACHINE]");
    settings.add_filter(r"(?m)^(  +\d+) +\d+\.\d+ +\d+\.\d+ +\d+\.\d+ ", "$1 [COST] ");
    settings.add_filter(r"(?m)^advice +(width|speculation|what|this is a debug) .*\n", "");
    settings.add_filter(r"/[^ \n]*/\.tmp[A-Za-z0-9]+", "[DIR]");
    settings.bind_to_scope()
}

#[test]
fn the_pair_inside() {
    let _filtered = filtered();
    insta::assert_snapshot!(doctor(&[]).all());
}

#[test]
fn what_is_wrong_is_a_row() {
    let _filtered = filtered();
    let folder = Folder::new();
    let target = folder.target("target", |_| {});
    let drafter = folder.drafter("drafter", |_| {});
    let narrow = folder.drafter("narrow", config("hidden_size", 128.into()));
    let cut = folder.target("cut", weights(|bytes| bytes.truncate(bytes.len() - 10)));
    insta::assert_snapshot!(
        "doctor_foreign_drafter",
        doctor(&["-m", &target, "--draft-model", &narrow]).all()
    );
    insta::assert_snapshot!("doctor_cut_weights", doctor(&["-m", &cut, "--draft-model", &drafter]).all());
    insta::assert_snapshot!("doctor_drafter_as_target", doctor(&["-m", &drafter]).all());
    insta::assert_snapshot!("doctor_no_drafter", doctor(&["-m", &target]).all());
}

/// NaN, an infinity, and the largest number of a format, which overflows in the forward.
const NUMBERS: [(&str, u16); 3] = [("nan", 0x7FC0), ("infinite", 0xFF80), ("huge", 0x7F7F)];

#[test]
fn numbers_that_are_none_are_rows() {
    let _filtered = filtered();
    let folder = Folder::new();
    let (target, drafter) = (folder.target("target", |_| {}), folder.drafter("drafter", |_| {}));
    for (name, bits) in NUMBERS {
        let spoilt =
            folder.target(&format!("{name}-target"), first_number("model.embedding_norm.weight", bits));
        let ended = doctor(&["-m", &spoilt, "--draft-model", &drafter]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        insta::assert_snapshot!(format!("doctor_{name}_target"), ended.all());
        let spoilt = folder.drafter(&format!("{name}-drafter"), first_number("norm.weight", bits));
        let ended = doctor(&["-m", &target, "--draft-model", &spoilt]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        insta::assert_snapshot!(format!("doctor_{name}_drafter"), ended.all());
    }
}

/// As short as it can be.
const BENCH: [&str; 9] = ["bench", "--context", "24", "--prefill", "0", "-n", "8", "--repeat", "1"];

/// No command goes on with logits that are no numbers and says nothing. A drafter that fails costs an answer its
/// speculation, and the answer says so.
#[test]
fn numbers_that_are_none_are_told_by_every_command() {
    let folder = Folder::new();
    let (target, drafter) = (folder.target("target", |_| {}), folder.drafter("drafter", |_| {}));
    for (name, bits) in NUMBERS {
        let spoilt =
            folder.target(&format!("{name}-target"), first_number("model.embedding_norm.weight", bits));
        for command in [&BENCH[..], &["run", "-p", "Hi", "-n", "8"], &["prove", "-n", "8", "--repeat", "1"]] {
            let with_drafter = [command, &["-m", &spoilt, "--draft-model", &drafter]].concat();
            let alone = [command, &["-m", &spoilt]].concat();
            let both = if command[0] == "prove" { vec![with_drafter] } else { vec![with_drafter, alone] };
            for arguments in both {
                let ended = run(&arguments);
                assert_eq!(ended.code, Some(1), "{name}, {arguments:?}: {ended:?}");
                assert!(ended.stderr.contains("logits of position"), "{name}, {arguments:?}: {ended:?}");
            }
        }
        let spoilt = folder.drafter(&format!("{name}-drafter"), first_number("norm.weight", bits));
        let models = ["-m", &target, "--draft-model", &spoilt];
        let ended = run(&[&BENCH[..], &models].concat());
        assert_eq!(ended.code, Some(1), "{name}: {ended:?}");
        assert!(ended.stderr.contains("the drafter failed"), "{name}: {ended:?}");
        // The largest number only fails where it is added up.
        if name == "huge" {
            continue;
        }
        let fixed = ["run", "-p", "Hi", "-n", "8", "--draft-width", "fixed"];
        let ended = run(&[&fixed[..], &models].concat());
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        assert!(ended.stderr.contains("no speculation: the drafter failed"), "{name}: {ended:?}");
    }
}

#[test]
fn the_report_for_programs() {
    let ended = doctor(&["--json", "--probe", "full"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["ok"], &report["context"]), (&true.into(), &24.into()));
    let widths = report["widths"].as_array().unwrap();
    assert_eq!((&widths[0]["verdict"], &widths[0]["classic_steps"]), (&"classic".into(), &1.0.into()));
    for width in widths {
        assert_eq!(width["used"], true, "{width}");
        assert!(width["verify_seconds"].as_f64().unwrap() > 0.0, "{width}");
    }
    let probed = "exact, by construction, and probed up to 4064 rows";
    assert_eq!(widths.last().unwrap()["verdict"], probed);
}
