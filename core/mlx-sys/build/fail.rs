//! Why a build stopped: each reason as one block that says what happened and what to do.

use std::fmt;
use std::path::PathBuf;

/// Lines of a failed program's output that a block repeats: the last ones, where the cause is.
const OUTPUT_LINES: usize = 15;

/// Everything outside this repository that can keep mlx-sys from building.
#[derive(Debug)]
pub enum Failure {
    /// The target is not one that MLX is published for; holds its description.
    Platform(String),
    /// The C library is older than the published MLX was built for; holds its version.
    Glibc(String),
    /// Python, which fetches and unpacks MLX, did not start.
    NoPython { python: String, cause: String },
    /// Python has no pip.
    NoPip { python: String },
    /// Neither the package index nor a mirror could be reached.
    NoNetwork { wanted: String, output: String },
    /// The index does not offer the pinned version.
    NotOffered { wanted: String, output: String },
    /// The file downloaded is not the pinned one.
    WrongHash { wanted: String, output: String },
    /// The disk is full.
    DiskFull { folder: PathBuf, output: String },
    /// Any other end of pip or of unpacking.
    Fetch { wanted: String, output: String },
    /// No place for the download is known.
    NoCacheFolder,
    /// The cache cannot be written or read.
    Cache { path: PathBuf, cause: String },
    /// `MLX_DIR` does not hold an unpacked MLX; `missing` is the first file looked for in vain.
    MlxDir { folder: PathBuf, missing: &'static str },
    /// `MLX_C_SRC` does not hold mlx-c.
    MlxCSource { folder: PathBuf },
    /// Cargo could not find or fetch the published mlx-sys.
    Upstream { output: String },
    /// No C++ compiler was found.
    NoCompiler { cause: String },
    /// The C++ compiler failed.
    Compile { cause: String },
    /// Something the build needs of its own surroundings; holds what.
    Internal(String),
}

impl Failure {
    /// What happened, and what to do about it (one remedy a line).
    fn text(&self) -> (String, Vec<String>) {
        let lines = |remedies: &[&str]| remedies.iter().map(ToString::to_string).collect();
        match self {
            Self::Platform(target) => (
                format!("MLX is not built for {target} here"),
                lines(&[
                    "build on macOS (Apple silicon) or on Linux x86-64 with glibc 2.35 or newer",
                    "on Windows, build inside WSL 2 with Ubuntu 22.04 or newer",
                ]),
            ),
            Self::Glibc(version) => (
                format!("MLX needs glibc 2.35 or newer, and this system has {version}"),
                lines(&[
                    "build on Ubuntu 22.04, Debian 12, Fedora 36 or anything newer (a container will do)",
                    "or set MLX_DIR to an MLX 0.32.2 that was built on this system",
                ]),
            ),
            Self::NoPython { python, cause } => (
                format!("Python, which downloads MLX, did not start: {python}: {cause}"),
                lines(&[
                    "install it: apt install python3 python3-pip  (or dnf install python3 python3-pip)",
                    "or set PYTHON to a Python 3 that has pip",
                    "or set MLX_DIR to an unpacked MLX wheel; then no Python is needed",
                ]),
            ),
            Self::NoPip { python } => (
                format!("{python} has no pip, which downloads MLX"),
                lines(&[
                    "install it: apt install python3-pip  (or dnf install python3-pip, or python3 -m ensurepip)",
                    "or set PYTHON to a Python 3 that has pip",
                    "or set MLX_DIR to an unpacked MLX wheel; then no pip is needed",
                ]),
            ),
            Self::NoNetwork { wanted, .. } => (
                format!("the Python package index cannot be reached, so {wanted} was not downloaded"),
                vec![
                    "build once with a network; later builds use the copy in the cache folder".into(),
                    "behind a proxy or a mirror, set HTTPS_PROXY, PIP_INDEX_URL or PIP_CERT".into(),
                    format!("or unpack the wheel of {wanted} yourself and set MLX_DIR to that folder"),
                ],
            ),
            Self::NotOffered { wanted, .. } => (
                format!("the Python package index offers no {wanted} for Linux x86-64, or cannot be reached"),
                vec![
                    "check the network, and that PIP_INDEX_URL (or pip's configuration) names a complete mirror".into(),
                    format!("or unpack the wheel of {wanted} yourself and set MLX_DIR to that folder"),
                ],
            ),
            Self::WrongHash { wanted, .. } => (
                format!("the file downloaded for {wanted} is not the one this source pins (sha256 below)"),
                lines(&[
                    "do not use it: a mirror or proxy changed the file, or it arrived damaged",
                    "try again with PIP_NO_CACHE_DIR=1, then with PIP_INDEX_URL=https://pypi.org/simple",
                ]),
            ),
            Self::DiskFull { folder, .. } => (
                format!("the disk is full (downloading MLX to {})", folder.display()),
                lines(&[
                    "free 1 GB (200 MB without the feature cuda)",
                    "or set MLX_CACHE_DIR to a folder on another disk",
                ]),
            ),
            Self::Fetch { wanted, .. } => (
                format!("{wanted} could not be downloaded and unpacked"),
                vec![
                    "read the output below; setting PYTHON to a newer Python 3 may help".into(),
                    format!("or unpack the wheel of {wanted} yourself and set MLX_DIR to that folder"),
                ],
            ),
            Self::NoCacheFolder => (
                "no folder is known to keep MLX in".into(),
                lines(&["set MLX_CACHE_DIR, XDG_CACHE_HOME or HOME"]),
            ),
            Self::Cache { path, cause } => (
                format!("the MLX cache does not work: {}: {cause}", path.display()),
                lines(&[
                    "make that path writable, or remove it if it was left incomplete",
                    "or set MLX_CACHE_DIR to another folder",
                ]),
            ),
            Self::MlxDir { folder, missing } => (
                format!("MLX_DIR is set to {}, where {missing} is missing", folder.display()),
                lines(&[
                    "set MLX_DIR to the folder of an unpacked mlx-cpu 0.32.2 wheel (feature cuda: mlx-cuda-13)",
                    "or unset MLX_DIR; then the build downloads MLX itself",
                ]),
            ),
            Self::MlxCSource { folder } => (
                format!("MLX_C_SRC is set to {}, where mlx/c/ops.cpp is missing", folder.display()),
                lines(&[
                    "set MLX_C_SRC to the root folder of mlx-c 0.7.0",
                    "or unset it; then the copy in the published mlx-sys is used",
                ]),
            ),
            Self::Upstream { .. } => (
                "cargo did not find the published mlx-sys 0.7.0, whose mlx-c sources are compiled here".into(),
                lines(&[
                    "offline: run once with a network: cargo fetch --manifest-path core/mlx-sys/upstream/Cargo.toml",
                    "with cargo vendor: add --sync core/mlx-sys/upstream/Cargo.toml",
                    "or set MLX_C_SRC to the root folder of mlx-c 0.7.0",
                ]),
            ),
            Self::NoCompiler { cause } => (
                format!("no C++ compiler was found: {cause}"),
                lines(&[
                    "install one: apt install g++  (or dnf install gcc-c++)",
                    "or set CXX to a compiler that knows C++20 (GCC 11, Clang 14 or newer)",
                ]),
            ),
            Self::Compile { cause } => (
                format!("mlx-c did not compile: {cause}"),
                lines(&[
                    "read the compiler's messages (the warnings cargo shows)",
                    "the compiler must know C++20: GCC 11, Clang 14 or newer; set CXX to choose one",
                    "MLX_DIR and MLX_C_SRC, if set, must name MLX 0.32.2 and mlx-c 0.7.0",
                ]),
            ),
            Self::Internal(cause) => (cause.clone(), lines(&["run the build through cargo"])),
        }
    }

    /// What the failed program said.
    fn output(&self) -> &str {
        match self {
            Self::NoNetwork { output, .. }
            | Self::NotOffered { output, .. }
            | Self::WrongHash { output, .. }
            | Self::DiskFull { output, .. }
            | Self::Fetch { output, .. }
            | Self::Upstream { output } => output,
            _ => "",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, remedies) = self.text();
        writeln!(f, "\nmlx-sys cannot be built: {what}.\n\nWhat to do:")?;
        for remedy in remedies {
            writeln!(f, "  * {remedy}")?;
        }
        let output: Vec<_> = self.output().lines().filter(|line| !line.trim().is_empty()).collect();
        if !output.is_empty() {
            writeln!(f, "\nWhat was said:")?;
            for line in &output[output.len().saturating_sub(OUTPUT_LINES)..] {
                writeln!(f, "  | {line}")?;
            }
        }
        Ok(())
    }
}

/// The reason behind pip's output `output` after it failed to download `wanted` (`name==version`) to `folder`.
pub fn pip_failure(python: &str, wanted: &str, folder: PathBuf, output: String) -> Failure {
    let said = |signs: &[&str]| signs.iter().any(|sign| output.contains(sign));
    let wanted = wanted.to_owned();
    if said(&["No module named pip"]) {
        Failure::NoPip { python: python.to_owned() }
    } else if said(&["DO NOT MATCH THE HASHES"]) {
        Failure::WrongHash { wanted, output }
    } else if said(&["No space left on device", "Errno 28"]) {
        Failure::DiskFull { folder, output }
    } else if said(&[
        "connection broken by",
        "Max retries exceeded",
        "Failed to establish a new connection",
        "Temporary failure in name resolution",
        "Network is unreachable",
        "Read timed out",
        "ProxyError",
        "SSLError",
    ]) {
        // Before the next: without a network pip also ends with "no matching distribution".
        Failure::NoNetwork { wanted, output }
    } else if said(&["No matching distribution found"]) {
        Failure::NotOffered { wanted, output }
    } else {
        Failure::Fetch { wanted, output }
    }
}
