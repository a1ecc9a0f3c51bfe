//! Where mlx-c's sources are: inside the published mlx-sys, which cargo downloads, checks and unpacks.

use crate::fail::Failure;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The pinned package, as `cargo metadata` opens its entry.
const ENTRY: &str = r#"{"name":"mlx-sys","version":"0.7.0","#;

/// mlx-c's root folder: `MLX_C_SRC`, else inside the package that `upstream/Cargo.lock` pins by checksum.
///
/// Cargo itself is asked, so its mirrors, vendored sources and offline mode apply. A cargo inside a cargo does not
/// wait for the outer one, which has let go of its package lock by the time build scripts run.
pub fn mlx_c() -> Result<PathBuf, Failure> {
    println!("cargo:rerun-if-env-changed=MLX_C_SRC");
    let given = env::var_os("MLX_C_SRC").filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = given {
        return if folder.join("mlx/c/ops.cpp").is_file() {
            Ok(folder)
        } else {
            Err(Failure::MlxCSource { folder })
        };
    }
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path", "upstream/Cargo.toml"])
        // The compiler wrappers of the outer build have nothing to wrap here.
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .output()
        .map_err(|cause| Failure::Upstream { output: cause.to_string() })?;
    if !output.status.success() {
        return Err(Failure::Upstream { output: String::from_utf8_lossy(&output.stderr).into_owned() });
    }
    let manifest = manifest_path(&String::from_utf8_lossy(&output.stdout));
    manifest
        .as_deref()
        .and_then(Path::parent)
        .map(|package| package.join("src/mlx-c"))
        .filter(|folder| folder.join("mlx/c/ops.cpp").is_file())
        .ok_or_else(|| Failure::Upstream { output: format!("no mlx-c sources beside {manifest:?}") })
}

/// The pinned package's manifest, read from the JSON that `cargo metadata` prints on one line.
pub fn manifest_path(metadata: &str) -> Option<PathBuf> {
    let (_, entry) = metadata.split_once(ENTRY)?;
    let (_, value) = entry.split_once(r#""manifest_path":""#)?;
    let mut path = String::new();
    let mut characters = value.chars();
    loop {
        match characters.next()? {
            '"' => return Some(path.into()),
            '\\' => path.push(characters.next()?), // \" and \\; a path has no other escape
            other => path.push(other),
        }
    }
}
