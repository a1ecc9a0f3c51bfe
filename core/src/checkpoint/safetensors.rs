//! One safetensors file: 8 bytes with the length of the header, the header (a JSON object from tensor names to dtype,
//! shape and byte range), then the data.
//!
//! The `safetensors` crate defines dtypes and entries. The rules are checked here, since its own refusals do not say
//! what was found, the last of two equal names wins there, and sums of huge ranges can overflow: every range must
//! lie in the file, have exactly the size of its shape, and together they must cover the data without holes or
//! overlaps. A property test holds both readers against each other.

use std::cmp::Ordering;

use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::Deserialize;
use serde_json::Value;

use super::json;
use super::source::Bytes;
use super::words::shortened;
use super::{CheckpointError, Result};

/// Bytes of the header's length, little-endian.
const LENGTH: usize = 8;
/// Largest header that the format allows.
const MAX_HEADER: usize = 100_000_000;
/// Most axes of one tensor; MLX kernels index at most this many.
const MAX_RANK: usize = 8;
/// Largest axis: MLX counts elements of an axis in i32.
const MAX_AXIS: usize = i32::MAX as usize;
/// Where a file keeps free text.
const METADATA: &str = "__metadata__";

/// A safetensors file whose header has been checked against the file.
#[derive(Debug)]
pub(super) struct Shard {
    /// Name of the file.
    pub(super) file: String,
    bytes: Bytes,
    /// First byte of the data.
    data: usize,
    /// Tensors in the order of their bytes.
    pub(super) tensors: Vec<Stored>,
}

/// One tensor of a [`Shard`].
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// Byte range within the data.
    start: usize,
    end: usize,
}

impl Shard {
    /// Reads and checks the header of `bytes`; nothing of the data is touched.
    pub(super) fn parse(file: &str, bytes: Bytes) -> Result<Self> {
        let header = header(file, &bytes)?;
        let data = LENGTH + header.len();
        let mut entries = json::object(&format!("{file} header"), header)?;
        if let Some(metadata) = entries.remove(METADATA) {
            free_text(file, &metadata)?;
        }
        let mut tensors = entries
            .into_iter()
            .map(|(name, entry)| Stored::read(file, name, entry))
            .collect::<Result<Vec<_>>>()?;
        tensors.sort_by(|a, b| (a.start, a.end, &a.name).cmp(&(b.start, b.end, &b.name)));
        covers(file, &tensors, bytes.len() - data)?;
        Ok(Self { file: file.to_owned(), bytes, data, tensors })
    }

    /// The bytes of tensor `at`.
    pub(super) fn tensor(&self, at: usize) -> &[u8] {
        let Stored { start, end, .. } = self.tensors[at];
        &self.bytes[self.data..][start..end]
    }

    /// Gives the memory of `part` back to the system if it is a part of this file; it can still be read.
    pub(super) fn release(&self, part: &[u8]) {
        self.bytes.release(part);
    }

    /// The length field and the header as they stand in the file.
    pub(super) fn header(&self) -> &[u8] {
        &self.bytes[..self.data]
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl Stored {
    /// Checks everything about one entry that needs no other.
    fn read(file: &str, name: String, entry: Value) -> Result<Self> {
        let refuse = |found: String, expected: String| CheckpointError::Tensor {
            file: file.to_owned(),
            tensor: shortened(&name, 200),
            found,
            expected,
        };
        let text = shortened(&entry.to_string(), 120);
        let info = TensorInfo::deserialize(entry).map_err(|error| {
            refuse(
                format!("the header entry {text} ({})", shortened(&error.to_string(), 80)),
                "a known dtype, a shape and two data_offsets".to_owned(),
            )
        })?;
        let (dtype, shape, (start, end)) = (info.dtype, info.shape, info.data_offsets);
        if shape.len() > MAX_RANK || shape.iter().any(|axis| *axis > MAX_AXIS) {
            return Err(refuse(
                format!("shape {shape:?}"),
                format!("at most {MAX_RANK} axes of at most {MAX_AXIS}"),
            ));
        }
        let bits = shape.iter().try_fold(dtype.bitsize(), |bits, axis| bits.checked_mul(*axis));
        let size = bits.filter(|bits| bits % 8 == 0).map(|bits| bits / 8).ok_or_else(|| {
            refuse(format!("{dtype} {shape:?}"), "a whole number of bytes below 2^61".to_owned())
        })?;
        if end.checked_sub(start) != Some(size) {
            return Err(refuse(
                format!("data_offsets [{start}, {end}]"),
                format!("{size} bytes for {dtype} {shape:?}"),
            ));
        }
        Ok(Self { name, dtype, shape, start, end })
    }
}

/// Checks that the free text of a header is what the format allows: strings by name.
fn free_text(file: &str, metadata: &Value) -> Result<()> {
    let texts = metadata.as_object().is_some_and(|texts| texts.values().all(Value::is_string));
    if texts || metadata.is_null() {
        return Ok(());
    }
    Err(CheckpointError::Field {
        file: file.to_owned(),
        field: METADATA.to_owned(),
        found: shortened(&metadata.to_string(), 64),
        expected: "an object of strings".to_owned(),
    })
}

/// The header of a file, inside its length field.
fn header<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a [u8]> {
    let malformed = |found: String, expected: String| CheckpointError::Malformed {
        file: file.to_owned(),
        found,
        expected,
    };
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else {
        return Err(malformed(
            format!("{} bytes", bytes.len()),
            format!("a safetensors file of at least {LENGTH} bytes"),
        ));
    };
    let length = u64::from_le_bytes(*length);
    usize::try_from(length)
        .ok()
        .filter(|length| *length <= MAX_HEADER)
        .ok_or_else(|| malformed(format!("header of {length} bytes"), format!("at most {MAX_HEADER}")))
        .and_then(|length| {
            rest.get(..length).ok_or_else(|| {
                malformed(
                    format!("{} bytes after the header's length", rest.len()),
                    format!("a header of {length} bytes"),
                )
            })
        })
}

/// Checks that `tensors`, in the order of their bytes, cover `data` bytes without holes, overlaps or a rest.
fn covers(file: &str, tensors: &[Stored], data: usize) -> Result<()> {
    let mut covered = 0;
    for Stored { name, start, end, .. } in tensors {
        if *end > data {
            return Err(CheckpointError::Malformed {
                file: file.to_owned(),
                found: format!("{data} bytes of data"),
                expected: format!("{end} or more, since {name} has data_offsets [{start}, {end}]"),
            });
        }
        let owner = match start.cmp(&covered) {
            Ordering::Equal => None,
            Ordering::Greater => Some("the bytes between belong to no tensor"),
            Ordering::Less => Some("the bytes before belong to another tensor"),
        };
        if let Some(owner) = owner {
            return Err(CheckpointError::Tensor {
                file: file.to_owned(),
                tensor: name.clone(),
                found: format!("data_offsets [{start}, {end}]"),
                expected: format!("a start at {covered}: {owner}"),
            });
        }
        covered = *end;
    }
    if covered == data {
        return Ok(());
    }
    Err(CheckpointError::Malformed {
        file: file.to_owned(),
        found: format!("{} bytes after the last tensor", data - covered),
        expected: "none".to_owned(),
    })
}

#[cfg(test)]
mod tests;
