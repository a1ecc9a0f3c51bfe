//! Which safetensors files make up a checkpoint, and which file each tensor is read from.
//!
//! With `model.safetensors.index.json` the index wins: files it does not name are left alone, every tensor it lists
//! must be where it says, every file it names must be there. Tensors that it does not list but that are in files it
//! names are read too (re-quantized models often carry the index of their source). An index none of whose files
//! exist beside a whole `model.safetensors` is stale and passed over with a note. Without an index, all
//! `model*.safetensors` files are read.

use std::collections::BTreeMap;

use serde_json::Value;

use super::safetensors::Shard;
use super::source::{Source, is_plain_name};
use super::words::listed;
use super::{CheckpointError, Config, Result};

/// Name of the index file.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// Name of the only file of an unsharded checkpoint.
const SINGLE: &str = "model.safetensors";

/// Where one tensor is: file and place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) shard: usize,
    pub(super) at: usize,
}

/// All files of a checkpoint, opened, and the place of every tensor by its name in the files.
#[derive(Debug)]
pub(super) struct Shards {
    pub(super) files: Vec<Shard>,
    pub(super) slots: BTreeMap<String, Slot>,
    /// What was passed over, for the log.
    pub(super) notes: Vec<String>,
}

impl Shards {
    /// Opens the safetensors files of `source`.
    pub(super) fn open(source: &Source) -> Result<Self> {
        let Some(bytes) = source.bytes(INDEX)? else {
            return Self::read(source, &unindexed(source)?, &BTreeMap::new(), Vec::new());
        };
        let listed_in = weight_map(&Config::parse(INDEX, &bytes)?)?;
        let mut files = listed_in.values().cloned().collect::<Vec<_>>();
        files.sort();
        files.dedup();
        let missing = files.iter().filter(|file| !source.contains(file)).cloned().collect::<Vec<_>>();
        if missing.is_empty() {
            Self::read(source, &files, &listed_in, Vec::new())
        } else if missing.len() == files.len() && source.contains(SINGLE) {
            let note = format!("{INDEX} is stale: it names {}, none of which is there", listed(&missing));
            Self::read(source, &[SINGLE.to_owned()], &BTreeMap::new(), vec![note])
        } else {
            Err(missing_shard(&missing[0], &format!("{INDEX} names it")))
        }
    }

    fn read(
        source: &Source,
        names: &[String],
        listed_in: &BTreeMap<String, String>,
        mut notes: Vec<String>,
    ) -> Result<Self> {
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            let bytes =
                source.bytes(name)?.ok_or_else(|| missing_shard(name, "it was there a moment ago"))?;
            files.push(Shard::parse(name, bytes)?);
        }
        let mut slots = BTreeMap::<String, Slot>::new();
        let mut repeated = Vec::new();
        for (shard, file) in files.iter().enumerate() {
            for (at, tensor) in file.tensors.iter().enumerate() {
                let name = &tensor.name;
                if listed_in.get(name).is_some_and(|listed| *listed != file.file) {
                    repeated.push(name.clone());
                } else if let Some(first) = slots.insert(name.clone(), Slot { shard, at }) {
                    return Err(CheckpointError::DuplicateTensor {
                        tensor: name.clone(),
                        first: files[first.shard].file.clone(),
                        second: file.file.clone(),
                    });
                }
            }
        }
        if let Some((tensor, file)) = listed_in.iter().find(|(tensor, _)| !slots.contains_key(*tensor)) {
            return Err(CheckpointError::NotInShard {
                file: file.clone(),
                tensor: tensor.clone(),
                index: INDEX.to_owned(),
            });
        }
        if !repeated.is_empty() {
            notes.push(format!("{INDEX} decides between two copies of {}", listed(&repeated)));
        }
        Ok(Self { files, slots, notes })
    }
}

/// Tensor name to file name, both as the index has them.
fn weight_map(index: &Config) -> Result<BTreeMap<String, String>> {
    let map = index.section("weight_map")?;
    let expected = "the name of a .safetensors file in the model's folder";
    let entries = map
        .fields()
        .map(|(tensor, file)| match file {
            Value::String(file) if is_plain_name(file) && file.ends_with(".safetensors") => {
                Ok((tensor.to_owned(), file.clone()))
            }
            _ => Err(map.refuse(tensor, expected)),
        })
        .collect::<Result<BTreeMap<_, _>>>()?;
    if entries.is_empty() { Err(index.refuse("weight_map", "at least one tensor")) } else { Ok(entries) }
}

/// The files of a checkpoint without index, sorted.
fn unindexed(source: &Source) -> Result<Vec<String>> {
    let names = source.names()?;
    let files = names.into_iter().filter(|name| is_weights(name)).collect::<Vec<_>>();
    if files.is_empty() {
        return Err(missing_shard(SINGLE, "there are no model*.safetensors files"));
    }
    for file in &files {
        let Some((number, count)) = numbered(file) else { continue };
        for other in 1..=count {
            let name = file.replacen(number, &format!("{other:0width$}", width = number.len()), 1);
            if !files.contains(&name) {
                return Err(missing_shard(&name, &format!("{file} is one of {count}")));
            }
        }
    }
    Ok(files)
}

/// Whether a file holds weights of an unindexed checkpoint.
pub(super) fn is_weights(name: &str) -> bool {
    name.starts_with("model") && name.ends_with(".safetensors")
}

/// `("00001", 3)` of `model-00001-of-00003.safetensors`; counts above 4096 are no shards.
fn numbered(file: &str) -> Option<(&str, usize)> {
    let (number, count) = file.strip_prefix("model-")?.strip_suffix(".safetensors")?.split_once("-of-")?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = Some(count).filter(|count| digits(count))?.parse().ok().filter(|count| *count <= 4096)?;
    digits(number).then_some((number, count))
}

fn missing_shard(file: &str, because: &str) -> CheckpointError {
    CheckpointError::MissingShard { file: file.to_owned(), because: because.to_owned() }
}

#[cfg(test)]
mod tests;
