//! Where the files of a checkpoint come from: a folder, or the program itself.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use super::mmap::{map, release};
use super::{CheckpointError, Result};

/// Files built into the program: name and content.
pub type EmbeddedFiles = &'static [(&'static str, &'static [u8])];

/// Where the files of a checkpoint come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A local folder; links are followed.
    Folder(PathBuf),
    /// Files built into the program.
    Embedded(EmbeddedFiles),
}

/// The bytes of one file, shared and cheap to clone. Safetensors files are memory mapped.
#[derive(Clone, Debug)]
pub struct Bytes(Held);

#[derive(Clone, Debug)]
enum Held {
    Mapped(Arc<Mmap>),
    Owned(Arc<[u8]>),
    Static(&'static [u8]),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Mapped(mapped) => mapped,
            Held::Owned(owned) => owned,
            Held::Static(bytes) => bytes,
        }
    }
}

impl Bytes {
    /// Gives the memory of `part` back to the system if it is a part of a mapped file; it can still be read.
    pub(super) fn release(&self, part: &[u8]) {
        let Held::Mapped(mapped) = &self.0 else { return };
        let all = mapped.as_ptr_range();
        let part = part.as_ptr_range();
        if all.start <= part.start && part.end <= all.end {
            let start = part.start.addr() - all.start.addr();
            release(mapped, start..start + (part.end.addr() - part.start.addr()));
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Held::Owned(bytes.into()))
    }
}

impl From<&'static [u8]> for Bytes {
    fn from(bytes: &'static [u8]) -> Self {
        Self(Held::Static(bytes))
    }
}

impl Source {
    /// The bytes of the file called `name` (a plain file name), or `None` if there is no such file.
    ///
    /// # Errors
    /// [`CheckpointError::DanglingLink`] for a link to nowhere, [`CheckpointError::Io`] for anything that the
    /// operating system refuses or that is not a regular file.
    pub fn bytes(&self, name: &str) -> Result<Option<Bytes>> {
        match self {
            Self::Embedded(files) => {
                Ok(files.iter().find(|(known, _)| *known == name).map(|(_, bytes)| Bytes::from(*bytes)))
            }
            Self::Folder(folder) => {
                let path = folder.join(name);
                if !is_plain_name(name) {
                    return Err(refused(&path, "not a plain file name"));
                }
                read(&path)
            }
        }
    }

    /// Whether a file called `name` is there; a dangling link counts as there.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::Embedded(files) => files.iter().any(|(known, _)| *known == name),
            Self::Folder(folder) => is_plain_name(name) && fs::symlink_metadata(folder.join(name)).is_ok(),
        }
    }

    /// Names of all files, sorted. Names that are not Unicode are left out: no file of a checkpoint has one.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = match self {
            Self::Embedded(files) => files.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>(),
            Self::Folder(folder) => fs::read_dir(folder)
                .and_then(|entries| {
                    entries
                        .map(|entry| Ok(entry?.file_name().into_string().ok()))
                        .collect::<io::Result<Vec<_>>>()
                })
                .map_err(|source| CheckpointError::Io { path: folder.clone(), source })?
                .into_iter()
                .flatten()
                .collect(),
        };
        names.sort();
        Ok(names)
    }
}

/// Whether `name` stays in its folder on every platform.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', ':', '\0'])
}

fn read(path: &Path) -> Result<Option<Bytes>> {
    let io_error = |source| CheckpointError::Io { path: path.to_owned(), source };
    // Looked at before it is opened: opening a pipe would wait for its writer.
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match fs::read_link(path) {
                Ok(target) => Err(CheckpointError::DanglingLink { link: path.to_owned(), target }),
                Err(_) => Ok(None),
            };
        }
        Err(error) => return Err(io_error(error)),
    };
    if !metadata.is_file() {
        return Err(refused(path, "not a regular file"));
    }
    let mut file = File::open(path).map_err(io_error)?;
    // An empty file cannot be mapped everywhere.
    if path.extension().is_some_and(|extension| extension == "safetensors") && metadata.len() > 0 {
        return Ok(Some(Bytes(Held::Mapped(Arc::new(map(&file).map_err(io_error)?)))));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(io_error)?;
    Ok(Some(Bytes::from(bytes)))
}

fn refused(path: &Path, why: &'static str) -> CheckpointError {
    CheckpointError::Io { path: path.to_owned(), source: io::Error::new(io::ErrorKind::InvalidInput, why) }
}
