//! What this build can be made for.

use crate::fail::Failure;

/// Oldest glibc that the published MLX runs with (its wheels are tagged `manylinux_2_35`).
const GLIBC: (u32, u32) = (2, 35);

/// A variable that cargo sets for build scripts, such as `CARGO_CFG_TARGET_OS`; empty when absent.
pub fn target(key: &str) -> String {
    std::env::var(key).unwrap_or_default()
}

/// Checks that the bindings fit the target: they are generated for Linux on x86-64 with glibc.
pub fn check_target(os: &str, arch: &str, env: &str) -> Result<(), Failure> {
    if (os, arch, env) == ("linux", "x86_64", "gnu") {
        Ok(())
    } else {
        Err(Failure::Platform([os, arch, env].join(" ").trim_end().to_owned()))
    }
}

/// Checks what `getconf GNU_LIBC_VERSION` printed ("glibc 2.36"). Text of another form passes: the linker decides.
pub fn check_glibc(printed: &str) -> Result<(), Failure> {
    let version = printed.trim();
    let numbers = version.strip_prefix("glibc ").and_then(|numbers| {
        let (major, minor) = numbers.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    match numbers {
        Some(found) if found < GLIBC => Err(Failure::Glibc(version.to_owned())),
        _ => Ok(()),
    }
}
