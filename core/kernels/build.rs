//! Hands a hash of the kernels' sources to the compiler: what is measured with them is void when they change.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=src");
    let mut files = Vec::new();
    collect(Path::new("src"), &mut files)?;
    files.sort();
    let mut hash = FNV_OFFSET;
    for (name, content) in &files {
        for bytes in [name.as_bytes(), content] {
            hash = bytes
                .iter()
                .chain(&(bytes.len() as u64).to_le_bytes())
                .fold(hash, |hash, byte| step(hash, *byte));
        }
    }
    println!("cargo:rustc-env=KERNEL_SOURCES={hash:016x}");
    Ok(())
}

/// FNV-1a, 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

/// Path and content of every file below `folder`.
fn collect(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push((path.to_string_lossy().replace('\\', "/"), fs::read(&path)?));
        }
    }
    Ok(())
}
