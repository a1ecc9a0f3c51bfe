fn main() {
    for key in ["DEP_MLX_LIB", "DEP_MLX_CACHE_LIB"] {
        if let Ok(folder) = std::env::var(key) {
            println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
        }
    }
}
