//! Empty: this package only pins the published mlx-sys (see its Cargo.toml).
