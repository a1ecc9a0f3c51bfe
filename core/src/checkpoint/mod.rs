//! Checkpoints: a folder (or files built into the program) with `config.json` and safetensors files.
//!
//! Opening checks every header against its file. Whatever is read after that is checked against what the
//! architecture expects: a family asks for [`Checkpoint::linear`], [`Checkpoint::vector`] or [`Checkpoint::tensor`]
//! with the shape it needs, and [`Checkpoint::finish`] refuses tensors that it never asked for. Weights stay memory
//! mapped; nothing here knows a family or MLX. Code in a checkpoint is never run.

mod config;
mod dequantize;
mod digest;
mod error;
mod floats;
mod index;
mod json;
mod linear;
mod locate;
mod mmap;
mod names;
mod quantization;
mod rope;
mod safetensors;
mod source;
mod tensor;
mod text;
mod words;
mod write;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

pub use ::safetensors::Dtype;

pub use self::config::{Config, DIM, LAYERS, NORM_EPS, ROPE_BASE};
pub use self::error::{CheckpointError, Result};
pub use self::linear::{Dense, LinearTensors, Quantized};
pub use self::locate::{HubCache, Located};
pub use self::quantization::{Mode, Packing};
pub use self::source::{Bytes, EmbeddedFiles, Source};
pub use self::tensor::TensorView;
pub use self::write::CheckpointWriter;

use self::index::{Shards, Slot};
use self::quantization::Quantization;

/// The file that says what a checkpoint is.
pub const CONFIG: &str = "config.json";
/// Unused tensors that an error lists.
const LISTED: usize = 8;

/// An opened checkpoint. Tensors are found by the names that the family gave them ([`Checkpoint::with_names`]), at
/// first those of the files.
#[derive(Debug)]
pub struct Checkpoint {
    source: Source,
    config: Config,
    config_bytes: Bytes,
    quantization: Quantization,
    files: Vec<safetensors::Shard>,
    tensors: BTreeMap<String, Entry>,
    notes: Vec<String>,
}

/// Fields of a config by which other loaders run code that comes with a model.
const CODE: [&str; 3] = ["auto_map", "model_file", "trust_remote_code"];

/// A tensor under its present name, and whether anybody asked for it.
#[derive(Debug)]
struct Entry {
    slot: Slot,
    read: AtomicBool,
}

impl Checkpoint {
    /// Opens the checkpoint in `folder`.
    ///
    /// # Errors
    /// Anything that [`CheckpointError`] names: no such folder, no config, a file missing, a header that does not fit
    /// its file, quantization by another tool.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        locate::check_folder(folder)?;
        Self::read(Source::Folder(folder.to_owned()))
    }

    /// Opens a checkpoint whose files are built into the program.
    pub fn embedded(files: EmbeddedFiles) -> Result<Self> {
        Self::read(Source::Embedded(files))
    }

    fn read(source: Source) -> Result<Self> {
        let config_bytes = source.bytes(CONFIG)?.ok_or_else(|| CheckpointError::Malformed {
            file: CONFIG.to_owned(),
            found: "no such file".to_owned(),
            expected: "the config of a model".to_owned(),
        })?;
        let config = Config::parse(CONFIG, &config_bytes)?;
        let quantization = Quantization::read(&config)?;
        let Shards { files, slots, mut notes } = Shards::open(&source)?;
        notes.extend(CODE.iter().filter(|field| config.has(field)).map(|field| {
            format!("{CONFIG}: {field} names code, which is passed over: nothing from a model folder is run")
        }));
        for note in &notes {
            tracing::warn!("{note}");
        }
        let entry = |(name, slot)| (name, Entry { slot, read: AtomicBool::new(false) });
        let tensors = slots.into_iter().map(entry).collect();
        Ok(Self { source, config, config_bytes, quantization, files, tensors, notes })
    }

    /// `config.json`.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where the files come from; for the other files of a model, such as `tokenizer.json`.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// What was passed over when the files were opened (already logged as warnings).
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Whether there is a tensor `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Dtype and shape of a tensor, without counting as a use of it.
    pub fn peek(&self, name: &str) -> Option<(Dtype, &[usize])> {
        let Slot { shard, at } = self.tensors.get(name)?.slot;
        let stored = &self.files[shard].tensors[at];
        Some((stored.dtype, &stored.shape))
    }

    /// The tensor `name`.
    ///
    /// # Errors
    /// [`CheckpointError::MissingTensor`] if no file holds it.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        self.tensor_for(name, "the architecture in config.json")
    }

    /// The tensor `name`, if there is one.
    pub fn opt_tensor(&self, name: &str) -> Option<TensorView<'_>> {
        self.tensors.get(name)?.read.store(true, Ordering::Relaxed);
        self.view(name)
    }

    /// The tensor `name`, if there is one, without counting as a use of it.
    fn view(&self, name: &str) -> Option<TensorView<'_>> {
        let (name, entry) = self.tensors.get_key_value(name)?;
        let file = &self.files[entry.slot.shard];
        let stored = &file.tensors[entry.slot.at];
        Some(TensorView {
            name,
            file: &file.file,
            dtype: stored.dtype,
            shape: &stored.shape,
            bytes: file.tensor(entry.slot.at),
        })
    }

    /// The tensor `name`; its absence is reported with who needs it.
    fn tensor_for(&self, name: &str, needed_for: &str) -> Result<TensorView<'_>> {
        self.opt_tensor(name).ok_or_else(|| self.missing(name, needed_for))
    }

    fn missing(&self, name: &str, needed_for: &str) -> CheckpointError {
        CheckpointError::MissingTensor {
            files: words::listed(&self.files.iter().map(|file| file.file.as_str()).collect::<Vec<_>>()),
            tensor: name.to_owned(),
            needed_for: needed_for.to_owned(),
        }
    }

    /// The elements of a float tensor of exactly `shape`, raised to f32 (row-major).
    pub fn array_f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.tensor(name)?.expect_shape(shape)?.to_f32()
    }

    /// A float vector of `len` elements (norm weights, biases), raised to f32.
    pub fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        self.array_f32(name, &[len])
    }

    /// A float vector of `len` elements, if the tensor is there.
    pub fn opt_vector(&self, name: &str, len: usize) -> Result<Option<Vec<f32>>> {
        self.contains(name).then(|| self.vector(name, len)).transpose()
    }

    /// Passes over the matrix at `path`, all parts of it, with a warning: the config says that the embedding takes its
    /// place. Nothing happens where there is none.
    pub fn pass_over_head(&self, path: &str) {
        let parts = ["weight", "scales", "biases", "bias"].map(|part| format!("{path}.{part}"));
        let there: Vec<_> = parts.iter().filter(|part| self.opt_tensor(part).is_some()).collect();
        if let [first, ..] = there.as_slice() {
            tracing::warn!("{first} is passed over: the config ties the output matrix to the embedding");
        }
    }

    /// Whether all floats of all tensors are numbers. Reads every weight, and counts as no use of it.
    ///
    /// # Errors
    /// [`CheckpointError::Tensor`] that names the first tensor with a NaN or an infinity.
    pub fn check_finite(&self) -> Result<()> {
        self.names().filter_map(|name| self.view(name)).try_for_each(|tensor| tensor.expect_finite())
    }

    /// Tensors that nobody has asked for so far, sorted.
    pub fn unused(&self) -> Vec<&str> {
        let unread = self.tensors.iter().filter(|(_, entry)| !entry.read.load(Ordering::Relaxed));
        unread.map(|(name, _)| name.as_str()).collect()
    }

    /// Refuses tensors that nobody has asked for: called when a family has built all its parts.
    ///
    /// # Errors
    /// [`CheckpointError::UnusedTensors`] with the first few names.
    pub fn finish(&self) -> Result<()> {
        let unused = self.unused();
        if unused.is_empty() {
            return Ok(());
        }
        let first = unused.iter().take(LISTED).map(|name| (*name).to_owned()).collect();
        Err(CheckpointError::UnusedTensors { count: unused.len(), first })
    }
}

#[cfg(test)]
mod messages;
#[cfg(test)]
mod tests;
