//! From what the user wrote to the folder of a model: a path, or `owner/name` in the Hugging Face cache.
//!
//! Local first: an existing path is never looked up in the cache. Nothing here touches the network.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::index::is_weights;
use super::words::listed;
use super::{CONFIG, CheckpointError, Result};

/// Weight formats that are not read here: ending and name.
const OTHER_FORMATS: [(&str, &str); 5] = [
    ("gguf", "GGUF weights"),
    ("bin", "PyTorch weights"),
    ("pt", "PyTorch weights"),
    ("pth", "PyTorch weights"),
    ("npz", "NumPy weights"),
];
/// What a snapshot's revision and a repository's parts may consist of.
const PLAIN: fn(char) -> bool = |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');

/// A model that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The folder with its files.
    pub folder: PathBuf,
    /// A name for people and clients: `owner/name`, or the folder's own name; never empty, never a path.
    pub name: String,
}

/// The local cache of the Hugging Face hub.
#[derive(Clone, Debug, Default)]
pub struct HubCache {
    root: Option<PathBuf>,
    home: Option<PathBuf>,
}

impl HubCache {
    /// The cache at `root` (the folder that holds the `models--…` folders).
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: Some(root.into()), home: None }
    }

    /// The cache where the hub's own tools keep it: `HF_HUB_CACHE`, `HF_HOME/hub`, `XDG_CACHE_HOME/huggingface/hub`,
    /// `~/.cache/huggingface/hub`; the first that is set.
    pub fn from_env() -> Self {
        Self::from_vars(|name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
    }

    fn from_vars(var: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let home = var("HOME").or_else(|| var("USERPROFILE"));
        let root = var("HF_HUB_CACHE")
            .or_else(|| var("HF_HOME").map(|folder| folder.join("hub")))
            .or_else(|| var("XDG_CACHE_HOME").map(|folder| folder.join("huggingface/hub")))
            .or_else(|| home.as_ref().map(|home| home.join(".cache/huggingface/hub")));
        Self { root, home }
    }

    /// The folder that holds the `models--…` folders, if any is known.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Finds the model that `reference` names: a folder, or `owner/name`. A leading `~/` that no shell has expanded
    /// is expanded.
    ///
    /// # Errors
    /// [`CheckpointError::NotFound`] with the places that were tried; the errors of [`super::Checkpoint::open`] for a
    /// folder that is no checkpoint.
    pub fn locate(&self, reference: impl AsRef<Path>) -> Result<Located> {
        let reference = reference.as_ref();
        let path = self.expanded(reference);
        match check_folder(&path) {
            Ok(()) => return Ok(Located { name: name_of(&path), folder: path }),
            Err(CheckpointError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let mut looked = vec![absolute.display().to_string()];
        if let (Some((owner, name)), Some(root)) = (reference.to_str().and_then(repository), &self.root) {
            let folder = root.join(format!("models--{owner}--{name}"));
            if folder.is_dir() {
                let folder = snapshot(&folder, &reference.display().to_string())?;
                check_folder(&folder)?;
                return Ok(Located { folder, name: format!("{owner}/{name}") });
            }
            looked.push(folder.display().to_string());
        }
        let reference = if reference.as_os_str().is_empty() {
            "(empty)".to_owned()
        } else {
            reference.display().to_string()
        };
        Err(CheckpointError::NotFound { reference, looked })
    }

    fn expanded(&self, reference: &Path) -> PathBuf {
        match (reference.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) if !reference.exists() => home.join(rest),
            _ => reference.to_owned(),
        }
    }
}

/// `(owner, name)`, if `reference` is written like a repository of the hub.
pub(super) fn repository(reference: &str) -> Option<(&str, &str)> {
    let (owner, name) = reference.split_once('/')?;
    let part = |part: &str| !part.is_empty() && part.chars().all(PLAIN) && !part.starts_with(['.', '-']);
    (part(owner) && part(name)).then_some((owner, name))
}

/// The snapshot of a model in the cache: the one that `refs/main` names, else the only one there.
fn snapshot(folder: &Path, reference: &str) -> Result<PathBuf> {
    let refuse = |found: String, expected: &str| CheckpointError::NoSnapshot {
        reference: reference.to_owned(),
        folder: folder.to_owned(),
        found,
        expected: expected.to_owned(),
    };
    let snapshots = folder.join("snapshots");
    match fs::read_to_string(folder.join("refs/main")) {
        Ok(revision) => {
            let revision = revision.trim();
            let found = snapshots.join(revision);
            let plain = !revision.is_empty() && revision.chars().all(PLAIN) && !revision.starts_with('.');
            if plain && found.is_dir() {
                return Ok(found);
            }
            Err(refuse(format!("refs/main names {revision:?}"), "a folder in snapshots"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let entries = fs::read_dir(&snapshots).map(|entries| entries.flatten().collect::<Vec<_>>());
            match entries.unwrap_or_default().as_slice() {
                [only] => Ok(only.path()),
                several => Err(refuse(
                    format!("has no refs/main and {} snapshots", several.len()),
                    "refs/main, or one snapshot",
                )),
            }
        }
        Err(source) => Err(CheckpointError::Io { path: folder.join("refs/main"), source }),
    }
}

/// Checks that `folder` is a folder that may hold a checkpoint, and says what it is otherwise.
pub(super) fn check_folder(folder: &Path) -> Result<()> {
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            if let Ok(target) = fs::read_link(folder) {
                return Err(CheckpointError::DanglingLink { link: folder.to_owned(), target });
            }
            let reference = folder.display().to_string();
            return Err(CheckpointError::NotFound { looked: vec![reference.clone()], reference });
        }
        Err(source) => return Err(CheckpointError::Io { path: folder.to_owned(), source }),
    };
    if !metadata.is_dir() {
        return Err(CheckpointError::NotAFolder { path: folder.to_owned() });
    }
    let names = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>())
        .map_err(|source| CheckpointError::Io { path: folder.to_owned(), source })?;
    check_names(folder, &names.iter().map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>())
}

fn check_names(folder: &Path, names: &[String]) -> Result<()> {
    let refuse =
        |found: String, hint| Err(CheckpointError::NotACheckpoint { path: folder.to_owned(), found, hint });
    if names.is_empty() {
        return refuse("empty folder".to_owned(), "the download may have failed: fetch the model again");
    }
    let weights = names.iter().any(|name| is_weights(name) || name == super::index::INDEX);
    if !weights {
        for (ending, format) in OTHER_FORMATS {
            let other = |name: &&String| Path::new(name).extension() == Some(OsStr::new(ending));
            if let Some(file) = names.iter().find(other) {
                return refuse(
                    format!("{format} ({file})"),
                    "take a safetensors version of the model, such as the mlx-community one",
                );
            }
        }
    }
    if !names.iter().any(|name| name == CONFIG) {
        let mut sorted = names.to_vec();
        sorted.sort();
        return refuse(
            format!("no {CONFIG} among {}", listed(&sorted)),
            "pass the folder that holds config.json",
        );
    }
    if weights {
        return Ok(());
    }
    refuse(format!("{CONFIG} and no weights"), "the download may be incomplete: fetch the model again")
}

/// The name of a folder; of a snapshot in the cache, the name of its repository.
fn name_of(folder: &Path) -> String {
    let whole = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let parts = |path: &Path| {
        let part = |component: Component<'_>| match component {
            Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
            _ => None,
        };
        path.components().filter_map(part).collect::<Vec<_>>()
    };
    let resolved = parts(&whole);
    if let [.., repository, snapshots, _] = resolved.as_slice()
        && let Some(repository) = repository.strip_prefix("models--").filter(|_| snapshots == "snapshots")
    {
        return repository.replacen("--", "/", 1);
    }
    // As the user wrote it, if that ends in a name; a link keeps its own name.
    let written = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    written.or_else(|| resolved.last().cloned()).unwrap_or_else(|| "model".to_owned())
}

#[cfg(test)]
mod tests;
