//! What must hold for the repository as a whole.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{At as _, Check, Failure, ensure, say};

/// The tracked tree stays below this, for good.
pub const LIMIT: u64 = 36 << 20;

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files that git tracks below `root`, as they are in the working tree, stay below `limit` bytes together.
pub fn size(root: &Path, limit: u64) -> Check {
    let Some(mut sizes) = tracked_sizes(root)? else {
        say("size of the tree: not run, this is no git checkout");
        return Ok(());
    };
    let total: u64 = sizes.iter().map(|(size, _)| size).sum();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let largest: Vec<_> = sizes.iter().take(5).map(|(size, file)| format!("{file} ({size})")).collect();
    ensure!(
        total < limit,
        "{total} bytes are tracked, the limit is {limit}; largest: {}",
        largest.join(", ")
    );
    Ok(())
}

/// Size and path of every tracked file that is there, or `None` outside a checkout.
pub fn tracked_sizes(root: &Path) -> Result<Option<Vec<(u64, String)>>, Failure> {
    let Some(files) = tracked(root)? else { return Ok(None) };
    let mut sizes = Vec::with_capacity(files.len());
    for file in files {
        match fs::symlink_metadata(root.join(&file)) {
            Ok(metadata) => sizes.push((metadata.len(), file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).at(file),
        }
    }
    Ok(Some(sizes))
}

/// Paths of the tracked files, or `None` outside a checkout.
fn tracked(root: &Path) -> Result<Option<Vec<String>>, Failure> {
    let output = match Command::new("git").args(["ls-files", "-z"]).current_dir(root).output() {
        Ok(output) if output.status.success() => output,
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let files = String::from_utf8_lossy(&output.stdout);
    let files: Vec<_> = files.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect();
    Ok((!files.is_empty()).then_some(files))
}

/// No code below `folders` names a family: lines of Rust outside comments and unit tests hold none of `names` (lower
/// case). `allowed` lists lines that may, as (end of the path, part of the line).
pub fn names_no_family(folders: &[PathBuf], names: &[&str], allowed: &[(&str, &str)]) -> Check {
    let mut found = Vec::new();
    for folder in folders {
        for file in rust_files(folder).at(folder.display())? {
            let place = file.display().to_string();
            let text = fs::read_to_string(&file).at(&place)?;
            for (number, line) in program_of(&text).lines().enumerate() {
                let code = line.split("//").next().unwrap_or("").to_lowercase();
                let excused = allowed.iter().any(|(path, part)| place.ends_with(path) && line.contains(part));
                if !excused && names.iter().any(|name| code.contains(name)) {
                    found.push(format!("{place}:{}: {}", number + 1, line.trim()));
                }
            }
        }
    }
    ensure!(found.is_empty(), "families are named outside their crates:\n{}", found.join("\n"));
    Ok(())
}

/// Lines of Rust below `folder` that are neither blank nor comments nor part of unit tests.
pub fn code_lines(folder: &Path) -> Result<usize, Failure> {
    let mut lines = 0;
    for file in rust_files(folder).at(folder.display())? {
        let text = fs::read_to_string(&file).at(file.display())?;
        let program = program_of(&text).lines().map(str::trim_start);
        lines += program.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
    }
    Ok(lines)
}

/// The part of a file before its unit tests, which stand at the end.
fn program_of(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or("")
}

/// Rust files below `folder` that are part of the program: not those of unit tests.
fn rust_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name == "tests" || name == "testing" {
            continue;
        }
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
