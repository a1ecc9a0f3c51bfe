//! Writes checkpoints: the tiny random ones that tests and the conformance suite run on.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use half::bf16;
use safetensors::Dtype;
use safetensors::tensor::{View, serialize};
use serde_json::{Value, json};

use super::index::INDEX;
use super::{CONFIG, CheckpointError, Result};

/// Builds a checkpoint and writes it to a folder, whole or sharded.
///
/// ```no_run
/// use mlxcel_core::checkpoint::{CheckpointWriter, Dtype};
///
/// CheckpointWriter::new()
///     .config(serde_json::json!({"model_type": "lfm2"}))
///     .tensor("model.norm.weight", Dtype::F32, &[1], 1f32.to_le_bytes().to_vec())
///     .write("folder")?;
/// # Ok::<(), mlxcel_core::checkpoint::CheckpointError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CheckpointWriter {
    config: Value,
    tensors: BTreeMap<String, Tensor>,
    files: BTreeMap<String, Vec<u8>>,
    per_shard: Option<usize>,
}

#[derive(Clone, Debug)]
struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for &Tensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

impl CheckpointWriter {
    /// No config, no tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `config.json`.
    #[must_use]
    pub fn config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    /// Adds a tensor, or replaces the one of that name. `bytes` are its elements, row-major and little-endian.
    #[must_use]
    pub fn tensor(
        mut self,
        name: impl Into<String>,
        dtype: Dtype,
        shape: &[usize],
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        self.tensors.insert(name.into(), Tensor { dtype, shape: shape.to_vec(), bytes: bytes.into() });
        self
    }

    /// Adds an f32 tensor.
    #[must_use]
    pub fn f32(self, name: impl Into<String>, shape: &[usize], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        self.tensor(name, Dtype::F32, shape, bytes)
    }

    /// Adds a bf16 tensor; values are rounded to the nearest.
    #[must_use]
    pub fn bf16(self, name: impl Into<String>, shape: &[usize], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| bf16::from_f32(*value).to_le_bytes()).collect::<Vec<_>>();
        self.tensor(name, Dtype::BF16, shape, bytes)
    }

    /// Adds another file, such as `tokenizer.json`.
    #[must_use]
    pub fn file(mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.insert(name.into(), bytes.into());
        self
    }

    /// Writes `model-0000i-of-0000n.safetensors` of at most `tensors` tensors each, and their index.
    #[must_use]
    pub fn tensors_per_shard(mut self, tensors: usize) -> Self {
        self.per_shard = Some(tensors.max(1));
        self
    }

    /// Writes everything to `folder`, which is made if need be.
    ///
    /// # Errors
    /// [`CheckpointError::Io`] with the file; [`CheckpointError::Malformed`] if bytes do not fit a tensor's shape.
    pub fn write(&self, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        fs::create_dir_all(folder)
            .map_err(|source| CheckpointError::Io { path: folder.to_owned(), source })?;
        for (name, bytes) in self.contents()? {
            let path = folder.join(name);
            fs::write(&path, bytes).map_err(|source: io::Error| CheckpointError::Io { path, source })?;
        }
        Ok(())
    }

    /// All files by name, as [`Self::write`] writes them.
    pub fn contents(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let mut contents = self.files.clone();
        contents.insert(CONFIG.to_owned(), self.config.to_string().into_bytes());
        let tensors = self.tensors.iter().collect::<Vec<_>>();
        let Some(per_shard) = self.per_shard else {
            contents.insert("model.safetensors".to_owned(), packed("model.safetensors", &tensors)?);
            return Ok(contents);
        };
        let shards = tensors.chunks(per_shard).collect::<Vec<_>>();
        let mut weight_map = BTreeMap::new();
        for (at, shard) in shards.iter().enumerate() {
            let file = format!("model-{:05}-of-{:05}.safetensors", at + 1, shards.len());
            contents.insert(file.clone(), packed(&file, shard)?);
            weight_map.extend(shard.iter().map(|(name, _)| ((*name).clone(), file.clone())));
        }
        let index = json!({ "metadata": {}, "weight_map": weight_map });
        contents.insert(INDEX.to_owned(), index.to_string().into_bytes());
        Ok(contents)
    }
}

fn packed(file: &str, tensors: &[(&String, &Tensor)]) -> Result<Vec<u8>> {
    for (name, tensor) in tensors {
        let bits = tensor.shape.iter().product::<usize>() * tensor.dtype.bitsize();
        if bits != tensor.bytes.len() * 8 {
            return Err(CheckpointError::Tensor {
                file: file.to_owned(),
                tensor: (*name).clone(),
                found: format!("{} bytes", tensor.bytes.len()),
                expected: format!("{} for {} {:?}", bits / 8, tensor.dtype, tensor.shape),
            });
        }
    }
    serialize(tensors.iter().map(|(name, tensor)| (*name, *tensor)), None).map_err(|error| {
        CheckpointError::Malformed {
            file: file.to_owned(),
            found: error.to_string(),
            expected: "tensors that safetensors can write".to_owned(),
        }
    })
}

#[cfg(test)]
mod tests;
