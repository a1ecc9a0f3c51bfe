//! MLX itself: the published wheel, pinned by version and sha256, unpacked once per user.

use crate::fail::{pip_failure, Failure};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};
use std::{env, fs, process};

/// MLX's version; mlx-c 0.7.0 is written for it.
pub const VERSION: &str = "0.32.2";

/// What every tree of MLX holds, by which one is recognised.
pub const LIBRARY: &str = "mlx/lib/libmlx.so";
const HEADERS: &str = "mlx/include/mlx/mlx.h";

/// One published build of MLX.
pub struct Wheel {
    package: &'static str,
    sha256: &'static str,
}

/// For the CPU, 10 MB.
pub const CPU: Wheel =
    Wheel { package: "mlx-cpu", sha256: "fc5d31b90fc4f457b2f9614ed45651a567d22a6a11a03d114a90a4e10bdd8878" };

/// For NVIDIA GPUs with CUDA 13, 87 MB.
pub const CUDA: Wheel = Wheel {
    package: "mlx-cuda-13",
    sha256: "335094ccd1c0c6dc3e09c8caba207c8180602bacc0c38ba20c1d81e9456ab394",
};

/// A variable's value as a path; an empty value counts as none.
pub fn set(key: &str) -> Option<PathBuf> {
    env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Folder named by `MLX_DIR`, if set: an unpacked wheel of the user's.
pub fn given() -> Option<Result<PathBuf, Failure>> {
    println!("cargo:rerun-if-env-changed=MLX_DIR");
    let folder = set("MLX_DIR")?;
    Some(match [LIBRARY, HEADERS].into_iter().find(|file| !folder.join(file).is_file()) {
        Some(missing) => Err(Failure::MlxDir { folder, missing }),
        None => Ok(folder),
    })
}

/// Cache folder of all trees: `MLX_CACHE_DIR`, else `mlx-native` in the user's cache folder.
fn cache() -> Result<PathBuf, Failure> {
    println!("cargo:rerun-if-env-changed=MLX_CACHE_DIR");
    set("MLX_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|folder| folder.join("mlx-native")))
        .or_else(|| set("HOME").map(|folder| folder.join(".cache/mlx-native")))
        .ok_or(Failure::NoCacheFolder)
}

impl Wheel {
    /// Where this wheel is unpacked, whether or not it already is. The name holds the hash, so a tree never changes.
    pub fn tree(&self) -> Result<PathBuf, Failure> {
        Ok(cache()?.join(format!("{}-{VERSION}-{}", self.package, &self.sha256[..12])))
    }

    /// The unpacked wheel, downloaded if it is not there yet.
    ///
    /// It is unpacked beside its place and moved there whole, so a tree is complete or absent, and builds that run
    /// at the same time at worst download twice.
    pub fn fetch(&self) -> Result<PathBuf, Failure> {
        let tree = self.tree()?;
        if tree.join(LIBRARY).is_file() {
            return Ok(tree);
        }
        // Process and time: machines that share a cache folder may have the same process numbers.
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
        let part = cache()?.join(format!(".part-{}-{now}", process::id()));
        let result = self.unpack_into(&part).and_then(|unpacked| match fs::rename(&unpacked, &tree) {
            Err(cause) if !tree.join(LIBRARY).is_file() => Err(broken(&tree, cause)),
            _ => Ok(tree),
        });
        let _ = fs::remove_dir_all(&part); // what is left of it only takes space
        result
    }

    /// Downloads to `part` and unpacks there; returns the folder of the unpacked files.
    fn unpack_into(&self, part: &Path) -> Result<PathBuf, Failure> {
        let wanted = format!("{}=={VERSION}", self.package);
        let unpacked = part.join("tree");
        fs::create_dir_all(&unpacked).map_err(|cause| broken(part, cause))?;
        let pins = part.join("requirements.txt");
        fs::write(&pins, format!("{wanted} --hash=sha256:{}\n", self.sha256))
            .map_err(|cause| broken(&pins, cause))?;

        // --platform makes the choice of the file independent of this Python's version and tags.
        let output = python(|command| {
            command
                .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
                .args(["--only-binary=:all:", "--platform", "manylinux_2_35_x86_64", "--require-hashes"])
                .arg("-r")
                .arg(&pins)
                .arg("-d")
                .arg(part)
        })?;
        if !output.status.success() {
            return Err(pip_failure(&python_name(), &wanted, part.to_owned(), text(&output)));
        }
        let wheel = fs::read_dir(part)
            .map_err(|cause| broken(part, cause))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .ok_or_else(|| Failure::Fetch { wanted: wanted.clone(), output: "pip left no wheel".into() })?;

        let output = python(|command| command.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&unpacked))?;
        let library = unpacked.join(LIBRARY);
        if !output.status.success() || !library.is_file() {
            return Err(pip_failure(&python_name(), &wanted, part.to_owned(), text(&output)));
        }
        age(&library).map_err(|cause| broken(&library, cause))?;
        Ok(unpacked)
    }
}

/// Dates the file into the past. Cargo watches it and would take a file younger than the build for a change.
fn age(file: &Path) -> std::io::Result<()> {
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(365 * 24 * 3600);
    fs::File::options().append(true).open(file)?.set_modified(past)
}

fn broken(path: &Path, cause: std::io::Error) -> Failure {
    Failure::Cache { path: path.to_owned(), cause: cause.to_string() }
}

fn python_name() -> String {
    env::var("PYTHON").unwrap_or_else(|_| "python3".into())
}

fn python(arguments: impl FnOnce(&mut Command) -> &mut Command) -> Result<Output, Failure> {
    let python = python_name();
    arguments(&mut Command::new(&python))
        .output()
        .map_err(|cause| Failure::NoPython { python, cause: cause.to_string() })
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}
