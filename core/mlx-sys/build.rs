//! Builds and links what the bindings call: mlx-c, compiled here, and MLX. README.md has the reasons.
#[cfg(target_vendor = "apple")]
#[path = "build/apple.rs"]
mod apple;
#[path = "build/fail.rs"]
mod fail;
#[path = "build/linux.rs"]
mod linux;
#[path = "build/platform.rs"]
mod platform;
#[path = "build/upstream.rs"]
mod upstream;
#[path = "build/wheel.rs"]
mod wheel;

use fail::Failure;

fn main() {
    for file in ["build.rs", "build", "src", "upstream/Cargo.lock"] {
        println!("cargo:rerun-if-changed={file}");
    }
    if let Err(failure) = build() {
        // Not a panic: cargo shows this text, and a panic's line number and backtrace hint would bury it.
        eprintln!("{failure}");
        std::process::exit(1);
    }
}

fn build() -> Result<(), Failure> {
    // The host's cfg chooses which helpers exist (their crates are build-dependencies), the target's which runs.
    #[cfg(target_vendor = "apple")]
    if platform::target("CARGO_CFG_TARGET_VENDOR") == "apple" {
        return apple::build();
    }
    linux::build()
}
