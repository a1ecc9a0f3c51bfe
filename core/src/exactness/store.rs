//! Where verdicts are kept: one small file a key, in the user's cache.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Key, Verdict};
use crate::cache;

/// A folder of verdicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    folder: PathBuf,
}

/// The content of a file. The key is in it for people, and because a name is only a hash.
#[derive(Serialize, Deserialize)]
struct Kept {
    key: Key,
    verdicts: Vec<Verdict>,
}

impl Store {
    /// In `folder`, which is made when something is kept.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// In the user's cache: `mlxcel/exactness` in `$XDG_CACHE_HOME`, else in `~/Library/Caches` on macOS and in `~/.cache`
    /// elsewhere. `None` if there is no home.
    pub fn user() -> Option<Self> {
        cache::folder("exactness").map(Self::at)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What was kept under `key`. A file that cannot be read, or is of another key, counts as absent.
    pub fn read(&self, key: &Key) -> Vec<Verdict> {
        let kept = cache::read(&self.file(key)).and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
        kept.filter(|kept| kept.key == *key).map(|kept| kept.verdicts).unwrap_or_default()
    }

    /// Keeps `verdicts` under `key`, beside those of other widths that are there. Readers see the old file or the new one.
    pub fn write(&self, key: &Key, verdicts: &[Verdict]) -> io::Result<()> {
        let mut all = self.read(key);
        all.retain(|old| verdicts.iter().all(|new| new.width != old.width));
        // A width without evidence is what an absent one is.
        let known = verdicts.iter().filter(|new| new.longest.is_some() || new.difference.is_some());
        all.extend(known.cloned());
        all.sort_by_key(|verdict| verdict.width);
        let kept = serde_json::to_vec_pretty(&Kept { key: key.clone(), verdicts: all })?;
        cache::write(&self.file(key), &kept)
    }

    fn file(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{}.json", key.name()))
    }
}
