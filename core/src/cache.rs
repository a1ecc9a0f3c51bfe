//! Small files in the user's cache folder, which may hold anything and may be gone at any time.

use std::{
    env,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    process,
};

/// Bytes of a file at most; ours have a few thousand.
const LARGEST: u64 = 1 << 20;

/// `mlxcel/NAME` in `$XDG_CACHE_HOME`, else in `~/Library/Caches` on macOS and in `~/.cache` elsewhere. `None` if there
/// is no home.
pub(crate) fn folder(name: &str) -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(own)))?;
    Some(cache.join("mlxcel").join(name))
}

/// The content of a file; `None` for one that is absent, cannot be read, is too large, or is no regular file: a pipe
/// would wait for ever, and a device never ends.
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= LARGEST).then_some(bytes)
}

/// Puts `bytes` in the place of a file, in a folder that is made if need be. Readers see the old file or the new one; of
/// two writers the later one wins.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    let unfinished = path.with_extension(format!("{}.tmp", process::id()));
    let written = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("a.json");
        assert_eq!(read(&path), None);
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(read(&path).as_deref(), Some(&b"two"[..]));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing unfinished is left");
    }

    /// What a reader sees at any moment is what is left when the writer is killed at that moment.
    #[test]
    fn a_file_is_never_seen_half_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let contents = [vec![b'a'; 200_000], vec![b'b'; 300_000]];
        write(&path, &contents[0]).unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..300 {
                    write(&path, &contents[turn % 2]).unwrap();
                }
                over.store(true, std::sync::atomic::Ordering::Release);
            });
            while !over.load(std::sync::atomic::Ordering::Acquire) {
                let seen = read(&path).unwrap();
                assert!(contents.contains(&seen), "{} bytes are none of the contents", seen.len());
            }
        });
    }

    #[test]
    fn what_is_too_large_or_no_file_counts_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), None);
        let path = folder.path().join("large");
        fs::write(&path, vec![b' '; LARGEST as usize + 1]).unwrap();
        assert_eq!(read(&path), None);
        // Reading any of it would go on until there is no memory.
        #[cfg(unix)]
        for device in ["/dev/zero", "/dev/full"] {
            let link = folder.path().join(device.trim_start_matches("/dev/"));
            std::os::unix::fs::symlink(device, &link).unwrap();
            assert_eq!(read(&link), None, "{device}");
        }
    }

    #[test]
    fn a_file_that_cannot_take_its_place_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::create_dir_all(taken.join("by a folder")).unwrap();
        assert!(write(&taken, b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
