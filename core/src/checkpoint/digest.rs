//! The identity of a checkpoint, without reading whole files.

use sha2::{Digest, Sha256};

use super::Checkpoint;

/// Changes when the way of digesting does.
const VERSION: &[u8] = b"mlxcel checkpoint digest 1";
/// Bytes of one sample, enough for a row of scales or a few groups of codes.
const SAMPLE: usize = 64;
/// Samples of one tensor, spread evenly from its first byte to its last.
const SAMPLES: usize = 8;

impl Checkpoint {
    /// A SHA-256 in hex over the config, and for each safetensors file its name, size, header and samples of every
    /// tensor. Two checkpoints with the same digest are the same model for all that is kept by it (verdicts of
    /// exactness, measured widths); the folder they lie in does not count.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(VERSION);
        add(&self.config_bytes);
        for file in &self.files {
            add(file.file.as_bytes());
            add(&(file.len() as u64).to_le_bytes());
            add(file.header());
            for at in 0..file.tensors.len() {
                samples(file.tensor(at)).for_each(&mut add);
            }
        }
        let hex = |text: String, byte: &u8| format!("{text}{byte:02x}");
        hash.finalize().iter().fold(String::new(), hex)
    }
}

/// All of a small tensor, else [`SAMPLES`] pieces of it with its first and last bytes among them.
fn samples(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (count, size) = if bytes.len() <= SAMPLE * SAMPLES { (1, bytes.len()) } else { (SAMPLES, SAMPLE) };
    let last = bytes.len() - size;
    (0..count).map(move |at| &bytes[at * last / (count - 1).max(1)..][..size])
}

#[cfg(test)]
mod tests;
