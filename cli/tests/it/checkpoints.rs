//! Folders with the pair of the program, whole or spoilt.

use std::{fs, path::Path};

use serde_json::Value;
use tempfile::TempDir;

/// A folder with checkpoints, removed when it goes out of scope.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// The path of `name` in the folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes the target under `name` and lets `spoil` change it; gives its path.
    pub(crate) fn target(&self, name: &str, spoil: impl FnOnce(&Path)) -> String {
        self.write(mlxcel_demo::TARGET, name, spoil)
    }

    /// Writes the drafter in the same way.
    pub(crate) fn drafter(&self, name: &str, spoil: impl FnOnce(&Path)) -> String {
        self.write(mlxcel_demo::DRAFTER, name, spoil)
    }

    fn write(&self, files: mlxcel_demo::Files, name: &str, spoil: impl FnOnce(&Path)) -> String {
        let folder = self.0.path().join(name);
        fs::create_dir(&folder).unwrap();
        for (file, bytes) in files {
            fs::write(folder.join(file), bytes).unwrap();
        }
        spoil(&folder);
        folder.to_str().unwrap().to_owned()
    }
}

/// Changes `config.json`.
pub(crate) fn config(field: &'static str, value: Value) -> impl FnOnce(&Path) {
    move |folder| {
        let file = folder.join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        config[field] = value;
        fs::write(file, config.to_string()).unwrap();
    }
}

/// Changes the bytes of the weights.
pub(crate) fn weights(change: impl FnOnce(&mut Vec<u8>)) -> impl FnOnce(&Path) {
    move |folder| {
        let file = folder.join("model.safetensors");
        let mut bytes = fs::read(&file).unwrap();
        change(&mut bytes);
        fs::write(file, bytes).unwrap();
    }
}

/// Replaces text of the safetensors header by text of the same length.
pub(crate) fn header(from: &'static str, to: &'static str) -> impl FnOnce(&Path) {
    assert_eq!(from.len(), to.len());
    weights(move |bytes| {
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    })
}

/// Sets the first number of a bf16 tensor to these bits.
pub(crate) fn first_number(tensor: &'static str, bits: u16) -> impl FnOnce(&Path) {
    weights(move |bytes| {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let at = 8 + length + header[tensor]["data_offsets"][0].as_u64().unwrap() as usize;
        bytes[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    })
}
