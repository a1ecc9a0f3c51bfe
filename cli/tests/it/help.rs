//! `--help`, `--version`, and command lines that are no commands.

use crate::program::run;

#[test]
fn help_of_each_command() {
    for name in ["", "run", "serve", "families", "inspect", "completions"] {
        let arguments: Vec<_> =
            [name, "--help"].into_iter().filter(|argument| !argument.is_empty()).collect();
        insta::assert_snapshot!(format!("help_{name}"), run(&arguments).all());
    }
}

#[test]
fn version() {
    let version = run(&["--version"]);
    assert_eq!(version.code, Some(0));
    assert!(version.stdout.starts_with(concat!("mlxcel ", env!("CARGO_PKG_VERSION"))), "{version:?}");
}

#[test]
fn no_command_is_a_usage_error() {
    let none = run(&[]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(2), ""));
    assert!(none.stderr.contains("Usage: mlxcel"), "{none:?}");
}
