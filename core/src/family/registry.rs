//! The families that a program links.

use super::{Bound, Drafter, Target, TargetSpec};
use crate::{
    Result, Width,
    checkpoint::{Checkpoint, Config, Source},
    nn::Executor,
    state::StateKind,
};

/// A family of targets; a crate registers one with `inventory::submit!`.
pub struct TargetFamily {
    /// Its name, unique among targets.
    pub name: &'static str,
    /// `model_type` values of its checkpoints.
    pub model_types: &'static [&'static str],
    /// The drafter family that its targets need, if only one fits.
    pub required_drafter_family: Option<&'static str>,
    /// Whether its operators take more than one segment in a forward.
    pub supports_batched: bool,
    /// Kinds of state that its layers have.
    pub states: &'static [StateKind],
    /// Loads a target.
    pub load: fn(&TargetFamily, Checkpoint, Executor) -> Result<Box<dyn Target>>,
}

/// Loads a drafter of a family for the target it is bound to.
pub type LoadDrafter = fn(&DrafterFamily, Checkpoint, Executor, &Bound<'_>) -> Result<Box<dyn Drafter>>;

/// A family of drafters; a crate registers one with `inventory::submit!`.
pub struct DrafterFamily {
    /// Its name, unique among drafters.
    pub name: &'static str,
    /// Whether a config is one of its drafters: by structure, since published drafters borrow other models' names.
    pub recognises: fn(&Config) -> bool,
    /// The width that a drafter with this config was trained for, so that wider blocks are refused before weights are read.
    pub trained_width: fn(&Config) -> Result<Width>,
    /// Loads a drafter for the target it is bound to; pairing is checked inside.
    pub load: LoadDrafter,
}

inventory::collect!(TargetFamily);
inventory::collect!(DrafterFamily);

/// No family for a checkpoint, or the wrong kind of checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two families of one name.
    #[error("two {kind} families are named {name}\nhint: link only one of them")]
    Duplicate {
        /// Target or drafter.
        kind: &'static str,
        /// The name.
        name: &'static str,
    },
    /// Two families for one `model_type`.
    #[error(
        "the target families {first} and {second} both claim model_type {model_type}\nhint: link only one of them"
    )]
    DuplicateModelType {
        /// A family.
        first: &'static str,
        /// Another.
        second: &'static str,
        /// What both claim.
        model_type: &'static str,
    },
    /// No family for this `model_type`.
    #[error(
        "{place}: model_type is {found}, expected that of a target family of this program: {known}\nhint: `mlxcel families` lists them; drafters go with --draft-model"
    )]
    UnknownModelType {
        /// The checkpoint.
        place: String,
        /// Its `model_type` as the config has it, or `missing`.
        found: String,
        /// All that are known.
        known: String,
    },
    /// A drafter where a target is needed.
    #[error(
        "{place} is a {family} drafter, not a target\nhint: pass it with --draft-model, and its target with -m"
    )]
    DrafterAsTarget {
        /// The checkpoint.
        place: String,
        /// Its family.
        family: &'static str,
    },
    /// A target where a drafter is needed.
    #[error(
        "{place} is a {family} target, not a drafter\nhint: pass it with -m, and its drafter with --draft-model"
    )]
    TargetAsDrafter {
        /// The checkpoint.
        place: String,
        /// Its family.
        family: &'static str,
    },
    /// No drafter family recognises a config.
    #[error(
        "{place} is of no drafter family of this program, expected one of: {known}\nhint: `mlxcel families` lists them; targets go with -m"
    )]
    UnknownDrafter {
        /// The checkpoint.
        place: String,
        /// All that are known.
        known: String,
    },
}

/// The linked target families, by name.
pub fn target_families() -> Result<Vec<&'static TargetFamily>, RegistryError> {
    let mut families: Vec<_> = inventory::iter::<TargetFamily>().collect();
    families.sort_by_key(|family| family.name);
    check_targets(&families)?;
    Ok(families)
}

/// The linked drafter families, by name.
pub fn drafter_families() -> Result<Vec<&'static DrafterFamily>, RegistryError> {
    let mut families: Vec<_> = inventory::iter::<DrafterFamily>().collect();
    families.sort_by_key(|family| family.name);
    match families.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(RegistryError::Duplicate { kind: "drafter", name: pair[0].name }),
        None => Ok(families),
    }
}

/// Whether families can be linked together: each name and each `model_type` is that of one.
pub fn check_targets(families: &[&TargetFamily]) -> Result<(), RegistryError> {
    for (i, family) in families.iter().enumerate() {
        for other in &families[..i] {
            if family.name == other.name {
                return Err(RegistryError::Duplicate { kind: "target", name: family.name });
            }
            if let Some(model_type) = family.model_types.iter().find(|name| other.model_types.contains(name))
            {
                return Err(RegistryError::DuplicateModelType {
                    first: other.name,
                    second: family.name,
                    model_type,
                });
            }
        }
    }
    Ok(())
}

/// What a checkpoint is, as the registry sees it.
#[derive(Clone, Copy)]
pub enum Recognised {
    /// A target of this family.
    Target(&'static TargetFamily),
    /// A drafter of this family.
    Drafter(&'static DrafterFamily),
    /// Of no linked family.
    Unknown,
}

/// Says what a checkpoint is by its config, without loading it.
pub fn recognise(checkpoint: &Checkpoint) -> Result<Recognised, RegistryError> {
    if let Some(family) = recognised_drafter(checkpoint)? {
        return Ok(Recognised::Drafter(family));
    }
    Ok(target_of(checkpoint)?.map_or(Recognised::Unknown, Recognised::Target))
}

/// The family that loads a checkpoint as a target.
///
/// # Errors
/// The checkpoint is a drafter, or of no known family.
pub fn target_family(checkpoint: &Checkpoint) -> Result<&'static TargetFamily, RegistryError> {
    match recognise(checkpoint)? {
        Recognised::Target(family) => Ok(family),
        Recognised::Drafter(family) => {
            Err(RegistryError::DrafterAsTarget { place: place_of(checkpoint), family: family.name })
        }
        Recognised::Unknown => {
            let known: Vec<_> = target_families()?.iter().flat_map(|f| f.model_types).copied().collect();
            let found = checkpoint.config().value("model_type").map_or("missing".to_owned(), shown);
            let place = place_of(checkpoint);
            Err(RegistryError::UnknownModelType { place, found, known: known.join(", ") })
        }
    }
}

/// The family that loads a checkpoint as a drafter.
///
/// # Errors
/// The checkpoint is a target, or of no known family.
pub fn drafter_family(checkpoint: &Checkpoint) -> Result<&'static DrafterFamily, RegistryError> {
    match recognise(checkpoint)? {
        Recognised::Drafter(family) => Ok(family),
        Recognised::Target(family) => {
            Err(RegistryError::TargetAsDrafter { place: place_of(checkpoint), family: family.name })
        }
        Recognised::Unknown => {
            let known: Vec<_> = drafter_families()?.iter().map(|family| family.name).collect();
            Err(RegistryError::UnknownDrafter { place: place_of(checkpoint), known: known.join(", ") })
        }
    }
}

/// Loads a checkpoint as a target.
pub fn load_target(checkpoint: Checkpoint, executor: Executor) -> Result<Box<dyn Target>> {
    let family = target_family(&checkpoint)?;
    (family.load)(family, checkpoint, executor)
}

/// Loads a checkpoint as a drafter of `target`.
pub fn load_drafter(
    checkpoint: Checkpoint,
    target: &dyn Target,
    executor: Executor,
) -> Result<Box<dyn Drafter>> {
    let family = drafter_family(&checkpoint)?;
    let spec: &TargetSpec = target.spec();
    let bound = Bound { spec, embedding: target.embedding(), head: target.head() };
    (family.load)(family, checkpoint, executor, &bound)
}

fn recognised_drafter(checkpoint: &Checkpoint) -> Result<Option<&'static DrafterFamily>, RegistryError> {
    Ok(drafter_families()?.into_iter().find(|family| (family.recognises)(checkpoint.config())))
}

fn target_of(checkpoint: &Checkpoint) -> Result<Option<&'static TargetFamily>, RegistryError> {
    let model_type = model_type(checkpoint);
    Ok(target_families()?.into_iter().find(|family| family.model_types.contains(&model_type)))
}

fn model_type(checkpoint: &Checkpoint) -> &str {
    checkpoint.config().value("model_type").and_then(|value| value.as_str()).unwrap_or("")
}

/// A value as the file has it, the beginning of a long one.
fn shown(value: &serde_json::Value) -> String {
    value.to_string().chars().take(80).collect()
}

/// What a message calls a checkpoint.
fn place_of(checkpoint: &Checkpoint) -> String {
    match checkpoint.source() {
        Source::Folder(folder) => folder.display().to_string(),
        Source::Embedded(_) => "the model in the program".to_owned(),
    }
}
