//! What a user reads when mlx-sys cannot be built. The build script's own files, as modules of this test.
#![allow(dead_code)]

#[path = "../build/fail.rs"]
mod fail;
#[path = "../build/platform.rs"]
mod platform;
#[path = "../build/upstream.rs"]
mod upstream;

use fail::{pip_failure, Failure};
use std::path::{Path, PathBuf};

/// pip's own words, as pip 23.2 printed them.
const NO_NETWORK: &str = "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) \
    after connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object>: Failed \
    to establish a new connection: [Errno 111] Connection refused')': /simple/mlx-cpu/\n\
    ERROR: Could not find a version that satisfies the requirement mlx-cpu==0.32.2 (from versions: none)\n\
    ERROR: No matching distribution found for mlx-cpu==0.32.2\n";
const NOT_OFFERED: &str =
    "ERROR: Could not find a version that satisfies the requirement mlx-cpu==0.32.2 (from \
    versions: none)\nERROR: No matching distribution found for mlx-cpu==0.32.2\n";
const WRONG_HASH: &str = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have \
    updated the package versions, please update the hashes.\n    mlx-cpu==0.32.2 from https://example.org/mlx.whl:\n\
    \x20       Expected sha256 0000\n             Got        fc5d\n";
const NO_PIP: &str = "/usr/bin/python3: No module named pip\n";
const DISK_FULL: &str =
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n";

fn pip(output: &str) -> Failure {
    pip_failure("python3", "mlx-cpu==0.32.2", PathBuf::from("/cache"), output.to_owned())
}

#[test]
fn pip_failures_are_told_apart() {
    assert!(matches!(pip(NO_PIP), Failure::NoPip { .. }));
    assert!(matches!(pip(NO_NETWORK), Failure::NoNetwork { .. }));
    assert!(matches!(pip(NOT_OFFERED), Failure::NotOffered { .. }));
    assert!(matches!(pip(WRONG_HASH), Failure::WrongHash { .. }));
    assert!(matches!(pip(DISK_FULL), Failure::DiskFull { .. }));
    assert!(matches!(pip("Segmentation fault\n"), Failure::Fetch { .. }));
}

#[test]
fn a_block_says_what_happened_what_to_do_and_what_was_said() {
    assert_eq!(
        pip(NOT_OFFERED).to_string(),
        "\nmlx-sys cannot be built: the Python package index offers no mlx-cpu==0.32.2 for Linux x86-64, or cannot \
         be reached.\n\nWhat to do:\n  * check the network, and that PIP_INDEX_URL (or pip's configuration) names a \
         complete mirror\n  * or unpack the wheel of mlx-cpu==0.32.2 yourself and set MLX_DIR to that folder\n\n\
         What was said:\n  | ERROR: Could not find a version that satisfies the requirement mlx-cpu==0.32.2 (from \
         versions: none)\n  | ERROR: No matching distribution found for mlx-cpu==0.32.2\n"
    );
}

#[test]
fn a_long_output_is_cut_to_its_end() {
    let output: String = (0..100).map(|line| format!("line {line}\n")).collect();
    let block = pip(&output).to_string();
    assert!(block.contains("| line 85\n") && block.ends_with("| line 99\n"), "{block}");
    assert!(!block.contains("line 84"), "{block}");
}

/// Each block names the way out: the variable to set or the package to install.
#[test]
fn every_failure_names_its_remedy() {
    let text = String::new;
    let folder = || PathBuf::from("/somewhere");
    let cases = [
        (Failure::Platform("windows x86_64 msvc".into()), "WSL 2"),
        (Failure::Glibc("glibc 2.31".into()), "Ubuntu 22.04"),
        (Failure::NoPython { python: "python3".into(), cause: text() }, "apt install python3 python3-pip"),
        (Failure::NoPip { python: "python3".into() }, "apt install python3-pip"),
        (Failure::NoNetwork { wanted: text(), output: text() }, "HTTPS_PROXY"),
        (Failure::NotOffered { wanted: text(), output: text() }, "PIP_INDEX_URL"),
        (Failure::WrongHash { wanted: text(), output: text() }, "PIP_NO_CACHE_DIR=1"),
        (Failure::DiskFull { folder: folder(), output: text() }, "MLX_CACHE_DIR"),
        (Failure::Fetch { wanted: text(), output: text() }, "MLX_DIR"),
        (Failure::NoCacheFolder, "MLX_CACHE_DIR, XDG_CACHE_HOME or HOME"),
        (Failure::Cache { path: folder(), cause: text() }, "MLX_CACHE_DIR"),
        (Failure::MlxDir { folder: folder(), missing: "mlx/lib/libmlx.so" }, "unset MLX_DIR"),
        (Failure::MlxCSource { folder: folder() }, "mlx-c 0.7.0"),
        (
            Failure::Upstream { output: text() },
            "cargo fetch --manifest-path core/mlx-sys/upstream/Cargo.toml",
        ),
        (Failure::NoCompiler { cause: text() }, "apt install g++"),
        (Failure::Compile { cause: text() }, "GCC 11, Clang 14"),
    ];
    for (failure, remedy) in cases {
        let block = failure.to_string();
        assert!(block.starts_with("\nmlx-sys cannot be built: "), "{block}");
        assert!(block.contains(remedy), "{failure:?} does not name {remedy}:\n{block}");
    }
}

#[test]
fn only_the_platform_of_the_bindings_is_built_for() {
    assert!(platform::check_target("linux", "x86_64", "gnu").is_ok());
    let others = [
        ("linux", "aarch64", "gnu"),
        ("linux", "x86_64", "musl"),
        ("windows", "x86_64", "msvc"),
        ("macos", "", ""),
    ];
    for (os, arch, env) in others {
        let failure = platform::check_target(os, arch, env).unwrap_err().to_string();
        assert!(failure.contains(&format!("MLX is not built for {os}")), "{failure}");
    }
}

#[test]
fn an_old_glibc_is_named() {
    for fine in ["glibc 2.35\n", "glibc 2.36\n", "glibc 3.0\n", "glibc 2.40.1\n", "", "musl"] {
        assert!(platform::check_glibc(fine).is_ok(), "{fine}");
    }
    for old in ["glibc 2.34\n", "glibc 2.9\n", "glibc 1.99\n"] {
        let failure = platform::check_glibc(old).unwrap_err().to_string();
        assert!(failure.contains(&format!("this system has {}.", old.trim())), "{failure}");
    }
}

/// The package's own entry counts, not the dependency on it that the stub's entry lists.
#[test]
fn the_published_package_is_found_in_cargos_metadata() {
    let metadata = r#"{"packages":[{"name":"mlx-upstream","version":"0.0.0","dependencies":[{"name":"mlx-sys",
        "source":"registry"}],"manifest_path":"/repository/upstream/Cargo.toml"},{"name":"mlx-sys","version":"0.7.0",
        "id":"registry#mlx-sys@0.7.0","manifest_path":"/home/a \"b\"/mlx-sys-0.7.0/Cargo.toml"}]}"#;
    let found = upstream::manifest_path(metadata);
    assert_eq!(found.as_deref(), Some(Path::new("/home/a \"b\"/mlx-sys-0.7.0/Cargo.toml")));
    assert_eq!(upstream::manifest_path(r#"{"packages":[]}"#), None);
}
