//! Everything that a verdict depends on.

use std::{env, fs, time::UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Device;
use crate::nn::{Executor, isa};

/// Changes when the scenes or the comparison do.
const PROBE: u32 = 1;

/// Everything that a verdict depends on: if any of it changes, widths are probed anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Way of probing.
    pub probe: u32,
    /// Version of this program.
    pub version: String,
    /// Hash of the kernels' sources.
    pub kernels: String,
    /// Size and time of the program's file: a program that was built anew may compute otherwise.
    pub program: String,
    /// Version of MLX.
    pub mlx: String,
    /// The device.
    pub device: String,
    /// Its driver, or the operating system's version where that brings it.
    pub driver: String,
    /// Instruction set of the CPU kernels.
    pub isa: String,
    /// Executor and type of activations.
    pub executor: String,
    /// Type of keys and values.
    pub cache_dtype: String,
    /// [Digest](crate::checkpoint::Checkpoint::digest) of the target's checkpoint.
    pub checkpoint: String,
}

impl Key {
    /// The key of a target on this machine, from its executor and the digest of its checkpoint.
    pub fn current(executor: Executor, checkpoint: String) -> Self {
        let device = Device::current(executor);
        Self {
            probe: PROBE,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernels: mlxcel_kernels::SOURCES.to_owned(),
            program: program().unwrap_or_default(),
            mlx: mlx_version().to_owned(),
            device: device.name,
            driver: device.driver,
            isa: isa().to_owned(),
            executor: executor.name().to_owned(),
            cache_dtype: executor.cache_dtype().to_owned(),
            checkpoint,
        }
    }

    /// A name for it: a hash of all parts, in hex.
    pub fn name(&self) -> String {
        let mut hash = Sha256::new();
        let parts = [
            &self.version,
            &self.kernels,
            &self.program,
            &self.mlx,
            &self.device,
            &self.driver,
            &self.isa,
            &self.executor,
            &self.cache_dtype,
            &self.checkpoint,
        ];
        hash.update(self.probe.to_le_bytes());
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let hex = |text: String, byte: &u8| format!("{text}{byte:02x}");
        hash.finalize()[..16].iter().fold(String::new(), hex)
    }
}

/// The version of MLX that this program was built with.
pub fn mlx_version() -> &'static str {
    option_env!("MLX_VERSION").unwrap_or("unknown")
}

fn program() -> Option<String> {
    let metadata = fs::metadata(env::current_exe().ok()?).ok()?;
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} bytes, {} ms", metadata.len(), modified.as_millis()))
}
