//! What can be wrong with a checkpoint: every refusal names the file, the place in it, what was found and what
//! would be right.

use std::path::PathBuf;

use super::words::listed;

/// Result of reading a checkpoint.
pub type Result<T, E = CheckpointError> = std::result::Result<T, E>;

/// Why a checkpoint, or a part of it, was refused. The message is one line; [`CheckpointError::hint`] says what to
/// do where that is known. `file` is a name inside the checkpoint's folder: whoever opened the folder names it.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Neither a local folder nor a snapshot in the Hugging Face cache.
    #[error("{reference}: not found (looked in {})", listed(looked))]
    NotFound {
        /// What was asked for.
        reference: String,
        /// Places that were tried, in order.
        looked: Vec<String>,
    },
    /// The cache knows the model but holds no usable snapshot of it.
    #[error("{reference}: {} {found}, expected {expected}", folder.display())]
    NoSnapshot {
        /// What was asked for.
        reference: String,
        /// Folder of the model in the cache.
        folder: PathBuf,
        /// What is wrong with it.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// The path of a file where the folder of a model is needed.
    #[error("{}: is a file, expected the folder of a model", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// The folder exists and does not hold a checkpoint that can be read.
    #[error("{}: {found}, expected config.json and model*.safetensors", path.display())]
    NotACheckpoint {
        /// The folder.
        path: PathBuf,
        /// What it holds instead.
        found: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// A link that points nowhere.
    #[error("{}: link to {}, which does not exist", link.display(), target.display())]
    DanglingLink {
        /// The link.
        link: PathBuf,
        /// Where it points to.
        target: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Its reason.
        source: std::io::Error,
    },
    /// A JSON file that is not JSON, or not an object.
    #[error("{file}: {found}, expected {expected}")]
    Json {
        /// The file.
        file: String,
        /// What is wrong, with line and column.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A field of a JSON file with a value that cannot be used.
    #[error("{file}: {field} is {found}, expected {expected}")]
    Field {
        /// The file.
        file: String,
        /// The whole path of the field, such as `text_config.hidden_size`.
        field: String,
        /// Its value (shortened), or `missing`.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// A safetensors file whose outer form is wrong: length, header, coverage.
    #[error("{file}: {found}, expected {expected}")]
    Malformed {
        /// The file.
        file: String,
        /// What was found.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// A tensor with the wrong dtype, shape or place in the file.
    #[error("{file}: {tensor} has {found}, expected {expected}")]
    Tensor {
        /// The file that holds it.
        file: String,
        /// The tensor, as the file spells it.
        tensor: String,
        /// What was found.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// A tensor that the architecture needs is in no file.
    #[error("{files}: tensor {tensor} is missing, expected for {needed_for}")]
    MissingTensor {
        /// Where it was looked for.
        files: String,
        /// Its name, after renaming.
        tensor: String,
        /// Who needs it.
        needed_for: String,
    },
    /// The index names a file that is not there.
    #[error("{file}: missing, expected because {because}")]
    MissingShard {
        /// The missing file.
        file: String,
        /// What promises it.
        because: String,
    },
    /// The index says that a tensor is in a file that lacks it.
    #[error("{file}: tensor {tensor} is missing, expected because {index} lists it there")]
    NotInShard {
        /// The file that lacks it.
        file: String,
        /// The tensor.
        tensor: String,
        /// The index file.
        index: String,
    },
    /// One tensor in two files and nothing that says which one counts.
    #[error("tensor {tensor} is in {first} and in {second}, expected in one file")]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
        /// First file.
        first: String,
        /// Second file.
        second: String,
    },
    /// Two names of the files become the same name of the architecture.
    #[error("{first} and {second} both become {name}, expected different names")]
    NameCollision {
        /// The name both would have.
        name: String,
        /// First name in the files.
        first: String,
        /// Second name in the files.
        second: String,
    },
    /// Tensors that no part of the architecture asked for.
    #[error("{count} tensors are not part of this architecture: {}", listed(first))]
    UnusedTensors {
        /// How many.
        count: usize,
        /// The first few.
        first: Vec<String>,
    },
    /// Quantized by a tool whose format is not read here.
    #[error("{file}: {field} is {found}, expected an MLX checkpoint (affine, mxfp4, mxfp8 or nvfp4)")]
    ForeignQuantization {
        /// The file.
        file: String,
        /// The field.
        field: String,
        /// The name of the format.
        found: String,
    },
}

impl CheckpointError {
    /// What the user can do, where that is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotFound { reference, .. } if is_repository(reference) => {
                format!("download it first: hf download {reference}")
            }
            Self::NotFound { .. } => {
                "pass the folder of a model, or owner/name of a downloaded one".to_owned()
            }
            Self::NoSnapshot { reference, .. } => format!("download it first: hf download {reference}"),
            Self::NotAFolder { path } => {
                match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                    Some(parent) => format!("pass the folder: {}", parent.display()),
                    None => "pass the folder: .".to_owned(),
                }
            }
            Self::NotACheckpoint { hint, .. } => (*hint).to_owned(),
            Self::DanglingLink { .. } | Self::MissingShard { .. } | Self::NotInShard { .. } => {
                "the download may be incomplete: fetch the model again".to_owned()
            }
            Self::Malformed { .. } => "the file may be incomplete or damaged: fetch it again".to_owned(),
            Self::Json { file, .. } | Self::Field { file, .. } if file == super::index::INDEX => {
                format!("remove {file} to load the model*.safetensors files as they are")
            }
            Self::ForeignQuantization { .. } => {
                "take the mlx-community conversion of the model, or convert the unquantized one".to_owned()
            }
            Self::MissingTensor { .. } | Self::UnusedTensors { .. } => {
                "config.json and the weights must be of one model: fetch both from the same place".to_owned()
            }
            Self::DuplicateTensor { .. } => "remove the file that is no part of the model".to_owned(),
            Self::Io { .. }
            | Self::Tensor { .. }
            | Self::Json { .. }
            | Self::Field { .. }
            | Self::NameCollision { .. } => {
                return None;
            }
        };
        Some(hint)
    }
}

fn is_repository(reference: &str) -> bool {
    super::locate::repository(reference).is_some()
}
