//! Build script of every package with programs or tests: where they find libmlx.so when they start (Linux).
//! Cargo does not hand a library's link arguments on, so each such package names mlx-sys as a direct dependency and
//! this file as its `build`. First the folder that the build linked against, then the user's cache folder.
//! They also learn MLX's version, as the variable `MLX_VERSION` of the compiler.
fn main() {
    println!("cargo:rerun-if-env-changed=DEP_MLX_LIB");
    for key in ["DEP_MLX_LIB", "DEP_MLX_CACHE_LIB"] {
        if let Ok(folder) = std::env::var(key) {
            println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
        }
    }
    if let Ok(version) = std::env::var("DEP_MLX_VERSION") {
        println!("cargo:rustc-env=MLX_VERSION={version}");
    }
}
