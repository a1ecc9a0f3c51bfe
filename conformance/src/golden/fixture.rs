//! A golden case on disk.

use std::path::{Path, PathBuf};

use mlxcel_core::{
    TokenId,
    checkpoint::{Checkpoint, CheckpointWriter},
};
use safetensors::{Dtype, SafeTensors};

use crate::{At as _, Failure};

/// The file that holds a case's weights.
const WEIGHTS: &str = "model.safetensors";

/// A checkpoint and what references make of it.
pub struct Golden {
    name: String,
    folder: PathBuf,
    bytes: Vec<u8>,
}

impl Golden {
    /// The case `golden/<name>` of this crate.
    pub fn open(name: &str) -> Result<Self, Failure> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
        let bytes = std::fs::read(folder.join("expected.safetensors")).at(name)?;
        Ok(Self { name: name.to_owned(), folder, bytes })
    }

    /// Name of the case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its checkpoint. A case without weights has those of the case `f32` next to it, rounded to bf16.
    pub fn checkpoint(&self) -> Result<Checkpoint, Failure> {
        if self.folder.join(WEIGHTS).exists() {
            return Ok(Checkpoint::open(&self.folder)?);
        }
        let config = std::fs::read(self.folder.join("config.json")).at(&self.name)?;
        let config = serde_json::from_slice(&config).map_err(|error| self.refuse(&error))?;
        let exact = Checkpoint::open(self.folder.with_file_name("f32"))?;
        let mut rounded = CheckpointWriter::new().config(config);
        for name in exact.names() {
            let tensor = exact.tensor(name)?;
            let values = tensor.to_f32()?;
            // Checkpoints keep the decay of a recurrence in f32 whatever their own precision is.
            rounded = if name.ends_with(".A_log") {
                rounded.f32(name, tensor.shape, &values)
            } else {
                rounded.bf16(name, tensor.shape, &values)
            };
        }
        let folder = tempfile::tempdir()?;
        rounded.write(folder.path())?;
        // The mapped files stay readable after the folder is gone.
        Ok(Checkpoint::open(folder.path())?)
    }

    /// Its expectations.
    pub fn expected(&self) -> Result<Expected<'_>, Failure> {
        let tensors = SafeTensors::deserialize(&self.bytes).map_err(|e| self.refuse(&e))?;
        let (_, header) = SafeTensors::read_metadata(&self.bytes).map_err(|e| self.refuse(&e))?;
        let metadata = header.metadata().clone().unwrap_or_default();
        Ok(Expected { case: &self.name, tensors, metadata })
    }

    fn refuse(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::Fixture(format!("{}: {error}", self.name))
    }
}

/// The tensors of a case.
pub struct Expected<'a> {
    case: &'a str,
    tensors: SafeTensors<'a>,
    metadata: std::collections::HashMap<String, String>,
}

impl Expected<'_> {
    /// Whether there is a tensor `key`.
    pub fn has(&self, key: &str) -> bool {
        self.tensors.tensor(key).is_ok()
    }

    /// An f32 tensor, row-major.
    pub fn f32(&self, key: &str) -> Result<Vec<f32>, Failure> {
        self.words(key, Dtype::F32, f32::from_le_bytes)
    }

    /// An i32 tensor, row-major, as counts.
    pub fn counts(&self, key: &str) -> Result<Vec<usize>, Failure> {
        self.words(key, Dtype::I32, |bytes| i32::from_le_bytes(bytes) as usize)
    }

    /// An i32 tensor as tokens.
    pub fn tokens(&self, key: &str) -> Result<Vec<TokenId>, Failure> {
        self.words(key, Dtype::I32, |bytes| TokenId(u32::from_le_bytes(bytes)))
    }

    /// The layers that taps were taken after.
    pub fn taps(&self) -> Result<Vec<usize>, Failure> {
        let text = self.metadata.get("taps").map_or("", String::as_str);
        serde_json::from_str(text).map_err(|error| self.refuse(&format!("metadata taps: {error}")))
    }

    fn words<T>(&self, key: &str, dtype: Dtype, read: fn([u8; 4]) -> T) -> Result<Vec<T>, Failure> {
        let tensor = self.tensors.tensor(key).map_err(|error| self.refuse(&error))?;
        if tensor.dtype() != dtype {
            return Err(self.refuse(&format!("{key} is {}, expected {dtype}", tensor.dtype())));
        }
        let (words, _) = tensor.data().as_chunks::<4>();
        Ok(words.iter().map(|word| read(*word)).collect())
    }

    fn refuse(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::Fixture(format!("{}: {error}", self.case))
    }
}
