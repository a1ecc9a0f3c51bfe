//! Writes checkpoints of real shapes with random weights, for measuring: a target and a drafter for it.
//!
//! `cargo run --release -p conformance --example random_checkpoint -- FOLDER 4|8|16 [lfm2-350m|qwen3.5-0.8b|muse-glimmer]`
//!
//! Muse Glimmer has 4 of its 52 layers, and its drafter 2 of 5.

mod dflash;
mod lfm2;
mod muse;
mod qwen;
mod random;

use std::{error::Error, path::PathBuf};

use mlxcel_core::checkpoint::CheckpointWriter;

/// Makes a checkpoint whose weights have so many bits.
type Make = fn(usize) -> CheckpointWriter;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: random_checkpoint FOLDER BITS [SHAPE], where BITS is 4, 8 or 16 and SHAPE is lfm2-350m, \
         qwen3.5-0.8b or muse-glimmer";
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    let bits: usize = arguments.next().ok_or(usage)?.parse()?;
    if ![4, 8, 16].contains(&bits) {
        return Err(usage.into());
    }
    let (target, drafter): (Make, Make) = match arguments.next().as_deref() {
        None | Some("lfm2-350m") => (lfm2::target, lfm2::drafter),
        Some("qwen3.5-0.8b") => (qwen::target, qwen::drafter),
        Some("muse-glimmer") => (muse::target, muse::drafter),
        Some(_) => return Err(usage.into()),
    };
    target(bits).write(folder.join("target"))?;
    drafter(bits).write(folder.join("drafter"))?;
    Ok(())
}
