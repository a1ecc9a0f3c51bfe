//! macOS: upstream's own build of the same sources, MLX included, with Xcode's tools. Not run here: written from
//! what the published mlx-sys 0.7.0 does, type-checked only. One thing differs: optimized in every profile.

use crate::fail::Failure;
use crate::platform::target;
use crate::upstream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Builds MLX and mlx-c with cmake, links them and the system's frameworks, and generates the bindings.
pub fn build() -> Result<(), Failure> {
    let mlx_c = upstream::mlx_c()?;
    let metal = Metal::requested()?;
    let built = compile(&mlx_c, metal.as_ref()).join("build");
    link(&built, metal.as_ref());
    publish(&mlx_c, &built, metal.is_some());
    bindings(&mlx_c)
}

/// Whether a feature of this package is on.
fn feature(name: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{name}")).is_some()
}

/// The GPU kernels: MLX loads `mlx.metallib` at run time from a folder whose name is compiled in.
struct Metal {
    folder: PathBuf,
    jit: bool,
}

impl Metal {
    /// With feature `metal`: `MLX_RS_METAL_PATH` as given, else a folder of the user's that outlives `cargo clean`.
    /// Kernels compiled at first use (`metal-jit`) come with a smaller library and so have a folder of their own.
    fn requested() -> Result<Option<Self>, Failure> {
        println!("cargo:rerun-if-env-changed=MLX_RS_METAL_PATH");
        if !feature("METAL") {
            return Ok(None);
        }
        let jit = feature("METAL_JIT");
        let name = if jit { "mlx-c-0.7.0-jit" } else { "mlx-c-0.7.0" };
        let folder = env::var_os("MLX_RS_METAL_PATH")
            .map(PathBuf::from)
            .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".mlx/lib").join(name)))
            .ok_or(Failure::NoCacheFolder)?;
        fs::create_dir_all(&folder)
            .map_err(|cause| Failure::Cache { path: folder.clone(), cause: cause.to_string() })?;
        Ok(Some(Self { folder, jit }))
    }
}

/// Runs cmake (which fetches MLX's sources) outside the source folder; returns its install folder.
fn compile(mlx_c: &Path, metal: Option<&Metal>) -> PathBuf {
    let switch = |on| if on { "ON" } else { "OFF" };
    let mut config = cmake::Config::new(mlx_c);
    config
        .profile("Release")
        .define("CMAKE_INSTALL_PREFIX", ".")
        // Xcode's compiler: another clang in PATH may not fit the system's SDK.
        .define("CMAKE_C_COMPILER", "/usr/bin/cc")
        .define("CMAKE_CXX_COMPILER", "/usr/bin/c++")
        .define("MLX_BUILD_ACCELERATE", switch(feature("ACCELERATE")))
        .define("MLX_BUILD_METAL", switch(metal.is_some()));
    if let Some(metal) = metal {
        config.define("MLX_METAL_PATH", &metal.folder);
        if metal.jit {
            config.define("MLX_METAL_JIT", "ON");
        }
    }
    config.build()
}

/// Links the static libraries in cmake's build folder and what they call.
fn link(built: &Path, metal: Option<&Metal>) {
    // gguflib and jaccl stay where MLX's build makes them; jaccl (Thunderbolt RDMA) needs a recent SDK.
    let mut libraries = vec![("mlx", "lib"), ("mlxc", "lib"), ("gguflib", "_deps/mlx-build/mlx/io")];
    if built.join("jaccl/libjaccl.a").is_file() {
        libraries.push(("jaccl", "jaccl"));
    }
    for (library, folder) in libraries {
        println!("cargo:rustc-link-search=native={}", built.join(folder).display());
        println!("cargo:rustc-link-lib=static={library}");
    }
    println!("cargo:rustc-link-lib=c++");
    println!("cargo:rustc-link-lib=dylib=objc");
    println!("cargo:rustc-link-lib=framework=Foundation");
    if feature("ACCELERATE") {
        println!("cargo:rustc-link-lib=framework=Accelerate");
    }
    if let Some(metal) = metal {
        println!("cargo:rustc-link-lib=framework=Metal");
        let kernels = metal.folder.join("mlx.metallib");
        if !kernels.is_file() {
            println!("cargo:warning={} was not built; operations on the GPU may fail", kernels.display());
        }
    }
    // MLX asks for the system's version through a function (__isPlatformVersionAtLeast) of Xcode's clang runtime,
    // which Rust does not link.
    if let Some(folder) = clang_runtime() {
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static=clang_rt.osx");
    }
}

/// Folder of Xcode's `libclang_rt.osx.a`; none without a full Xcode.
fn clang_runtime() -> Option<PathBuf> {
    let output = Command::new("xcode-select").arg("--print-path").output().ok()?;
    let developer = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    fs::read_dir(developer.join("Toolchains/XcodeDefault.xctoolchain/usr/lib/clang"))
        .ok()?
        .filter_map(|version| Some(version.ok()?.path().join("lib/darwin")))
        .find(|folder| folder.join("libclang_rt.osx.a").is_file())
}

/// Upstream's values for dependents that compile C++ against MLX.
fn publish(mlx_c: &Path, built: &Path, metal: bool) {
    let mut folders = vec![built.join("_deps/mlx-src"), mlx_c.to_owned()];
    if metal {
        folders.insert(1, built.join("_deps/metal_cpp-src"));
    }
    if let Ok(include) = env::join_paths(folders) {
        println!("cargo:include={}", include.to_string_lossy());
    }
    println!("cargo:defines=MLX_STATIC");
    println!("cargo:version={}", crate::wheel::VERSION);
}

/// Writes `OUT_DIR/bindings.rs` from all public headers.
fn bindings(mlx_c: &Path) -> Result<(), Failure> {
    let failed = |cause: String| Failure::Internal(format!("the bindings were not generated: {cause}"));
    let mut headers: Vec<_> = fs::read_dir(mlx_c.join("mlx/c"))
        .map_err(|cause| failed(cause.to_string()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "h"))
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    headers.sort();
    bindgen::builder()
        .headers(headers)
        .clang_arg(format!("-I{}", mlx_c.display()))
        .rust_target(bindgen::RustTarget::stable(73, 0).map_err(|cause| failed(cause.to_string()))?)
        // Rust declares these itself, with types that differ.
        .blocklist_function("malloc")
        .blocklist_function("realloc")
        .generate()
        .map_err(|cause| failed(cause.to_string()))?
        .write_to_file(Path::new(&target("OUT_DIR")).join("bindings.rs"))
        .map_err(|cause| failed(cause.to_string()))
}
