//! Numbers and tensors that cannot be: refused by name while loading, before anything is computed from them.

use mlxcel_core::{
    Error,
    checkpoint::{Checkpoint, CheckpointWriter},
    family::{Drafter, Target},
};
use serde_json::{Value, json};

use crate::{At as _, Check, Failure, ensure, load, random::RandomPair};

/// Sections that a text model does not read.
const UNREAD: [&str; 2] = ["vision_config", "audio_config"];

/// Every integer of both configs, one after the other, at 3·10⁹ (more than an i32 holds), at −1 and as text: each refused
/// with the field's name.
pub fn every_number(pair: &RandomPair) -> Check {
    let target = load::target(pair.target.open()?)?;
    // What lies beside a section of the same fields is not read.
    let wrapped = pair.target.config["text_config"].is_object();
    for place in integers(&pair.target.config) {
        if !(wrapped && place == "/max_position_embeddings") {
            refused(&pair.target.config, &place, |config| {
                load::target(pair.target.open_as(config)?).map(drop).map_err(Failure::from)
            })?;
        }
    }
    for place in integers(&pair.drafter.config) {
        // How long a drafter's own context may be is the target's to say.
        if place != "/max_position_embeddings" {
            refused(&pair.drafter.config, &place, |config| {
                load::drafter(pair.drafter.open_as(config)?, target.as_ref()).map(drop).map_err(Failure::from)
            })?;
        }
    }
    Ok(())
}

fn refused(config: &Value, place: &str, load: impl Fn(Value) -> Check) -> Check {
    let field = place.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap_or(place);
    for value in [json!(3_000_000_000_u64), json!(-1), json!("64")] {
        let mut config = config.clone();
        let Some(slot) = config.pointer_mut(place) else {
            return Err(Failure::Fixture(format!("no {place} in the config")));
        };
        *slot = value.clone();
        match load(config) {
            Err(
                error @ (Failure::Checkpoint(_) | Failure::Core(Error::Checkpoint(_) | Error::Pairing(_))),
            ) => {
                let message = error.to_string();
                ensure!(message.contains(field), "{place} = {value}: refused without its name: {message}");
            }
            Err(error) => return Err(error.at(format_args!("{place} = {value}"))),
            Ok(()) => return Err(Failure::Broken(format!("{place} = {value}: loaded"))),
        }
    }
    Ok(())
}

/// Pointers to the integers of a config.
fn integers(value: &Value) -> Vec<String> {
    let below = |name: &str, value: &Value| -> Vec<String> {
        integers(value).into_iter().map(|place| format!("/{name}{place}")).collect()
    };
    match value {
        Value::Number(number) if number.is_u64() => vec![String::new()],
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !UNREAD.contains(&name.as_str()))
            .flat_map(|(name, value)| below(name, value))
            .collect(),
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(at, value)| below(&at.to_string(), value)).collect()
        }
        _ => Vec::new(),
    }
}

/// A quantized target that lost one tensor of scales, said to be quantized as a whole or layer by layer: refused by the
/// layer's name.
pub fn missing_scales(pair: &RandomPair) -> Check {
    let checkpoint = pair.target.open()?;
    let scales: Vec<_> = checkpoint.names().filter(|name| name.ends_with(".scales")).collect();
    for lost in scales {
        let module = lost.trim_end_matches(".scales");
        let mut mixed = pair.target.config.clone();
        mixed["quantization"][module] = pair.target.config["quantization"].clone();
        for config in [pair.target.config.clone(), mixed] {
            match load::target(without(&checkpoint, lost, config)?) {
                Err(Error::Checkpoint(error)) => {
                    let message = error.to_string();
                    let layer = module.rsplit_once("layers.").map_or("", |(_, layer)| layer);
                    ensure!(message.contains(layer), "without {lost}: {message}");
                }
                Err(error) => return Err(Failure::from(error).at(format_args!("without {lost}"))),
                Ok(_) => return Err(Failure::Broken(format!("without {lost}: loaded"))),
            }
        }
    }
    Ok(())
}

fn without(checkpoint: &Checkpoint, lost: &str, config: Value) -> Result<Checkpoint, Failure> {
    let mut writer = CheckpointWriter::new().config(config);
    for name in checkpoint.names().filter(|name| *name != lost) {
        let tensor = checkpoint.tensor(name)?;
        writer = writer.tensor(name, tensor.dtype, tensor.shape, tensor.bytes);
    }
    let folder = tempfile::tempdir()?;
    writer.write(folder.path())?;
    // The mapped files stay readable after the folder is gone.
    Ok(Checkpoint::open(folder.path())?)
}

/// A tensor that no layer takes: refused by name, not passed over.
pub fn unused_tensor(pair: &RandomPair) -> Check {
    let extra = "model.layers.0.no_such_part.weight";
    let unused = |error: Option<Error>| match error {
        Some(Error::Checkpoint(error)) if error.to_string().contains("layers.0.no_such_part.weight") => {
            Ok(())
        }
        Some(error) => Err(Failure::from(error)),
        None => Err(Failure::Broken("loaded".to_owned())),
    };
    let mut spoilt = pair.clone();
    spoilt.target.tensors = spoilt.target.tensors.f32(extra, &[1], &[0.0]);
    spoilt.drafter.tensors = spoilt.drafter.tensors.f32(extra, &[1], &[0.0]);
    let target: Result<Box<dyn Target>, Error> = load::target(spoilt.target.open()?);
    unused(target.err()).at("target")?;
    let target = load::target(pair.target.open()?)?;
    let drafter: Result<Box<dyn Drafter>, Error> = load::drafter(spoilt.drafter.open()?, target.as_ref());
    unused(drafter.err()).at("drafter")
}
