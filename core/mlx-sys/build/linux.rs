//! Linux on x86-64: mlx-c compiled against the published MLX library.

use crate::fail::Failure;
use crate::platform::{check_glibc, check_target, target};
use crate::{upstream, wheel};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Compiles mlx-c and the shim, links them and libmlx.so, and tells dependents where that is.
pub fn build() -> Result<(), Failure> {
    check_target(
        &target("CARGO_CFG_TARGET_OS"),
        &target("CARGO_CFG_TARGET_ARCH"),
        &target("CARGO_CFG_TARGET_ENV"),
    )?;
    let wheel = if env::var_os("CARGO_FEATURE_CUDA").is_some() { wheel::CUDA } else { wheel::CPU };
    let mlx = match wheel::given() {
        Some(folder) => folder?,
        None => {
            if let Ok(output) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() {
                check_glibc(&String::from_utf8_lossy(&output.stdout))?;
            }
            wheel.fetch()?
        }
    };
    // A relative MLX_DIR would mean another folder to the linker and to the program.
    let mlx = mlx.canonicalize().map_err(|cause| Failure::Cache { path: mlx, cause: cause.to_string() })?;
    let mlx_c = upstream::mlx_c()?;
    compile(&mlx_c, &mlx)?;
    link(&mlx, wheel.tree().ok())?;
    publish(&mlx_c, &mlx);
    Ok(())
}

/// All of mlx-c's C++ files and ours as one static library.
fn compile(mlx_c: &Path, mlx: &Path) -> Result<(), Failure> {
    let here = variable("CARGO_MANIFEST_DIR")?;
    let sources = mlx_c.join("mlx/c");
    let mut files: Vec<PathBuf> = fs::read_dir(&sources)
        .map_err(|cause| Failure::Compile { cause: format!("{}: {cause}", sources.display()) })?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "cpp"))
        .collect();
    files.sort();

    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++20")
        // Whatever the profile: a debugger has no business here, and unoptimized C++ is slow and large.
        .opt_level(2)
        .debug(false)
        .warnings(false)
        .include(mlx_c)
        .include(mlx.join("mlx/include"))
        .flag("-include")
        .flag(here.join("src/compat.h"))
        .files(files)
        .file(here.join("src/shim.cpp"));
    // MLX's error messages name source files; without this they would name folders of the building machine.
    for (folder, name) in [(mlx_c, "mlx-c"), (mlx, "mlx"), (&here, "mlx-sys")] {
        build.flag(format!("-ffile-prefix-map={}={name}", folder.display()));
    }
    build.try_get_compiler().map_err(compiler_failure)?;
    build.try_compile("mlxc").map_err(compiler_failure)
}

fn compiler_failure(error: cc::Error) -> Failure {
    let cause = error.to_string();
    if cause.contains("ToolNotFound") || cause.contains("failed to find tool") {
        Failure::NoCompiler { cause }
    } else {
        Failure::Compile { cause }
    }
}

/// Links libmlx.so and sets run paths: the folder it came from, then the cache folder.
fn link(mlx: &Path, cached: Option<PathBuf>) -> Result<(), Failure> {
    let folder = mlx.join("mlx/lib");
    // Cargo puts link folders below target/ on LD_LIBRARY_PATH when it runs programs and tests, others not.
    let link = variable("OUT_DIR")?.join("lib");
    let _ = fs::remove_file(&link); // absent on the first build
    #[cfg(unix)]
    std::os::unix::fs::symlink(&folder, &link)
        .map_err(|cause| Failure::Cache { path: link.clone(), cause: cause.to_string() })?;
    println!("cargo:rustc-link-search=native={}", link.display());
    println!("cargo:rustc-link-lib=dylib=mlx");
    println!("cargo:rerun-if-changed={}", mlx.join(wheel::LIBRARY).display());

    // For this package's own tests; other packages do the same in rpath.rs from the two values.
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
    println!("cargo:lib={}", folder.display());
    if let Some(cached) = cached.map(|tree| tree.join("mlx/lib")).filter(|cached| *cached != folder) {
        println!("cargo:cache_lib={}", cached.display());
    }
    Ok(())
}

/// Upstream's values for dependents that compile C++ against MLX: `DEP_MLX_INCLUDE` and `DEP_MLX_VERSION`.
fn publish(mlx_c: &Path, mlx: &Path) {
    if let Ok(include) = env::join_paths([mlx.join("mlx/include"), mlx_c.to_owned()]) {
        println!("cargo:include={}", include.to_string_lossy());
    }
    println!("cargo:version={}", wheel::VERSION);
}

/// A folder that cargo names to build scripts.
fn variable(key: &str) -> Result<PathBuf, Failure> {
    env::var_os(key).map(PathBuf::from).ok_or_else(|| Failure::Internal(format!("{key} is not set")))
}
