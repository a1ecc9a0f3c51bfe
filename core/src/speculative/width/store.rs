//! Evidence that outlives the program: one small file a pair and machine, in the user's cache.

use std::{collections::HashMap, io, path::PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Evidence, SharedEvidence, evidence::Kept};
use crate::{cache, exactness::Device, nn::Executor};

/// Changes when the evidence or its meaning does; files of other versions count as absent.
const VERSION: u32 = 1;

/// What evidence is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PairKey {
    /// Digest of the target's checkpoint.
    pub target: String,
    /// Digest of the drafter's checkpoint.
    pub drafter: String,
    /// Device, executor and threads.
    pub machine: String,
}

impl PairKey {
    /// The key of a pair on this machine; `threads` as the user set them.
    pub fn current(target: String, drafter: String, executor: Executor, threads: Option<usize>) -> Self {
        let threads = threads.map_or_else(|| "default".to_owned(), |threads| threads.to_string());
        let device = Device::current(executor).name;
        Self { target, drafter, machine: format!("{device}, {}, {threads} threads", executor.name()) }
    }
}

/// The content of a file. The key is in it for people, and because a name is only a hash.
#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    key: PairKey,
    evidence: Kept,
}

/// Evidence by pair: shared within the program, and kept in a folder if there is one.
#[derive(Clone, Debug, Default)]
pub struct EvidenceStore {
    folder: Option<PathBuf>,
    pairs: HashMap<PairKey, Pair>,
}

#[derive(Clone, Debug)]
struct Pair {
    shared: SharedEvidence,
    /// What its file says, or would say if there were one.
    kept: Kept,
}

impl EvidenceStore {
    /// In `folder`, which is made when something is kept; without one, for this program only.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, pairs: HashMap::new() }
    }

    /// `mlxcel/widths` in `$XDG_CACHE_HOME`, else in `~/Library/Caches` on macOS and in `~/.cache` elsewhere. `None` if
    /// there is no home.
    pub fn user_folder() -> Option<PathBuf> {
        cache::folder("widths")
    }

    /// The evidence of a pair. A file that cannot be read, is of another version or of another pair, counts as absent.
    pub fn evidence(&mut self, key: &PairKey) -> SharedEvidence {
        if let Some(pair) = self.pairs.get(key) {
            return pair.shared.clone();
        }
        let file = self.file(key).and_then(|path| cache::read(&path));
        let file = file.and_then(|bytes| serde_json::from_slice::<File>(&bytes).ok());
        let kept = file.filter(|file| file.version == VERSION && file.key == *key);
        let evidence = kept.map(|file| Evidence::from_kept(file.evidence)).unwrap_or_default();
        let kept = evidence.kept();
        let shared = SharedEvidence::new(evidence);
        self.pairs.insert(key.clone(), Pair { shared: shared.clone(), kept });
        shared
    }

    /// Keeps what was learned of a pair, if anything was since it was kept last. Readers see the old file or the new one, also
    /// after a program was ended on the way; of two programs the later one wins. Says whether a file was written.
    ///
    /// # Errors
    /// The folder cannot be written to; the next call tries again.
    pub fn keep(&mut self, key: &PairKey) -> io::Result<bool> {
        let Some(path) = self.file(key) else { return Ok(false) };
        let Some(pair) = self.pairs.get_mut(key) else { return Ok(false) };
        let evidence = pair.shared.lock().kept();
        if evidence == pair.kept {
            return Ok(false);
        }
        let file = File { version: VERSION, key: key.clone(), evidence };
        cache::write(&path, &serde_json::to_vec(&file)?)?;
        pair.kept = file.evidence;
        Ok(true)
    }

    fn file(&self, key: &PairKey) -> Option<PathBuf> {
        let mut hash = Sha256::new();
        for part in [&key.target, &key.drafter, &key.machine] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let name = hash.finalize()[..16].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        Some(self.folder.as_ref()?.join(format!("{name}.json")))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn key(target: &str) -> PairKey {
        PairKey { target: target.to_owned(), drafter: "d".to_owned(), machine: "m".to_owned() }
    }

    /// Evidence of a machine where 4 rows cost twice one row.
    fn teach(shared: &SharedEvidence) {
        for rows in [1, 1, 4, 1, 4, 4] {
            shared.lock().verified(rows, if rows == 1 { 0.01 } else { 0.02 });
        }
    }

    fn ratio(shared: &SharedEvidence) -> f64 {
        let evidence = shared.lock();
        evidence.verify_seconds(4) / evidence.verify_seconds(1)
    }

    #[test]
    fn evidence_outlives_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Some(folder.path().join("deep/er"));
        let mut store = EvidenceStore::new(folder.clone());
        teach(&store.evidence(&key("a")));
        store.keep(&key("a")).unwrap();
        let learned = ratio(&store.evidence(&key("a")));
        assert!((learned - 2.0).abs() < 0.1, "{learned}");

        let mut again = EvidenceStore::new(folder.clone());
        assert!((ratio(&again.evidence(&key("a"))) - learned).abs() < 1e-9);
        assert_eq!(again.evidence(&key("b")).lock().classic_rounds, 0, "another pair");
    }

    #[test]
    fn files_that_are_not_sound_are_absent() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = EvidenceStore::new(Some(folder.path().to_owned()));
        teach(&store.evidence(&key("a")));
        store.keep(&key("a")).unwrap();
        let path = store.file(&key("a")).unwrap();
        let sound = fs::read_to_string(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing unfinished is left");
        let rounds = |text: &str| {
            fs::write(&path, text).unwrap();
            let mut store = EvidenceStore::new(Some(folder.path().to_owned()));
            store.evidence(&key("a")).lock().classic_rounds
        };
        assert_eq!(rounds(&sound), 3);
        for broken in [
            sound.replace("\"version\":1", "\"version\":2"),
            sound.replace("\"target\":\"a\"", "\"target\":\"b\""),
            sound.replace("\"balance\":", "\"balance\":1e9,\"was\":"),
            sound[..sound.len() / 2].to_owned(),
            String::new(),
        ] {
            assert_ne!(broken, sound);
            assert_eq!(rounds(&broken), 0, "{broken:.60}");
        }
    }

    #[test]
    fn what_taught_nothing_new_is_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = EvidenceStore::new(Some(folder.path().to_owned()));
        let shared = store.evidence(&key("a"));
        assert!(!store.keep(&key("a")).unwrap(), "nothing was learned");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        for _ in 0..2 {
            teach(&shared);
            assert!(store.keep(&key("a")).unwrap());
            assert!(!store.keep(&key("a")).unwrap(), "the file says all of it");
        }
        let mut again = EvidenceStore::new(Some(folder.path().to_owned()));
        again.evidence(&key("a"));
        assert!(!again.keep(&key("a")).unwrap(), "what was read is in the file");
    }

    #[test]
    fn what_could_not_be_written_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::write(&taken, "no folder").unwrap();
        let mut store = EvidenceStore::new(Some(taken.clone()));
        teach(&store.evidence(&key("a")));
        store.keep(&key("a")).unwrap_err();
        fs::remove_file(&taken).unwrap();
        assert!(store.keep(&key("a")).unwrap());
    }

    #[test]
    fn without_a_folder_nothing_is_written() {
        let mut store = EvidenceStore::default();
        teach(&store.evidence(&key("a")));
        store.keep(&key("a")).unwrap();
        assert_eq!(store.evidence(&key("a")).lock().classic_rounds, 3, "shared within the program");
    }
}
