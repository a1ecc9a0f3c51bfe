//! `mlxcel inspect`.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::Result;
use mlxcel_core::{
    checkpoint::{Checkpoint, Source},
    family::{Recognised, recognise},
};
use serde_json::Value;

use crate::{args::InspectArgs, load};

/// Fields of a config that say how large a model is, with the words for people.
const DIMENSIONS: [(&str, &str); 5] = [
    ("num_hidden_layers", "layers"),
    ("hidden_size", "hidden"),
    ("vocab_size", "vocabulary"),
    ("max_position_embeddings", "context"),
    ("block_size", "block size"),
];

/// Says what a checkpoint holds. Reads headers only.
pub(crate) fn inspect(args: &InspectArgs) -> Result<()> {
    let named = load::open_target(args.model.as_deref())?;
    super::print(&describe(&named.name, &named.checkpoint)?)
}

fn describe(name: &str, checkpoint: &Checkpoint) -> Result<String> {
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "{label:13} {value}");
    };
    line("name", name);
    if let Source::Folder(folder) = checkpoint.source() {
        line("folder", &folder.display().to_string());
    }
    line("model_type", config_text(checkpoint, "model_type").as_deref().unwrap_or("-"));
    line("family", &family(checkpoint)?);
    for (field, label) in DIMENSIONS {
        if let Some(value) = config_text(checkpoint, field) {
            line(label, &value);
        }
    }
    line("quantization", &quantization(checkpoint));
    let (tensors, bytes, dtypes) = sizes(checkpoint);
    line("tensors", &format!("{tensors} ({dtypes})"));
    line("weights", &format!("{:.1} MB", bytes as f64 / 1e6));
    for note in checkpoint.notes() {
        line("note", note);
    }
    Ok(text)
}

/// A field of the config, or of the text model's part in it.
fn config_text(checkpoint: &Checkpoint, field: &str) -> Option<String> {
    let config = checkpoint.config();
    let inner = || config.value("text_config").and_then(|text| text.get(field));
    match config.value(field).or_else(inner)? {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

pub(super) fn family(checkpoint: &Checkpoint) -> Result<String> {
    Ok(match recognise(checkpoint)? {
        Recognised::Target(family) => match family.required_drafter_family {
            Some(drafter) => format!("{}, a target for {drafter} drafters", family.name),
            None => format!("{}, a target", family.name),
        },
        Recognised::Drafter(family) => format!("{}, a drafter", family.name),
        Recognised::Unknown => "none of this program's (mlxcel families)".to_owned(),
    })
}

fn quantization(checkpoint: &Checkpoint) -> String {
    let Some(block) = checkpoint.config().value("quantization").and_then(Value::as_object) else {
        return "none".to_owned();
    };
    let part = |field: &str| block.get(field).map(|value| value.to_string().replace('"', ""));
    let mode = part("mode").unwrap_or_else(|| "affine".to_owned());
    let bits = part("bits").unwrap_or_else(|| "?".to_owned());
    let group = part("group_size").unwrap_or_else(|| "?".to_owned());
    let layers = block.values().filter(|value| value.is_object() || value.is_boolean()).count();
    let layers = if layers == 0 { String::new() } else { format!(", {layers} layers otherwise") };
    format!("{mode}, {bits} bits, groups of {group}{layers}")
}

/// Number of tensors, bytes of all, and how many there are of each dtype.
pub(super) fn sizes(checkpoint: &Checkpoint) -> (usize, usize, String) {
    let mut dtypes = BTreeMap::<String, usize>::new();
    let (mut tensors, mut bytes) = (0, 0);
    for (dtype, shape) in checkpoint.names().filter_map(|name| checkpoint.peek(name)) {
        tensors += 1;
        bytes += shape.iter().product::<usize>() * dtype.bitsize() / 8;
        *dtypes.entry(dtype.to_string()).or_default() += 1;
    }
    let dtypes: Vec<_> = dtypes.into_iter().map(|(dtype, count)| format!("{count} {dtype}")).collect();
    (tensors, bytes, dtypes.join(", "))
}
