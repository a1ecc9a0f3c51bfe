//! A drafter that does not fit its target is refused at load, each misfit by its own name.

use mlxcel_core::{
    Error,
    family::{PairingError, RegistryError, Target},
};
use serde_json::Value;

use crate::{At as _, Check, Failure, ensure, load, random::RandomPair};

/// A drafter's config that is wrong in one way.
pub struct Misfit {
    /// The refusal it must get, as [`kind`] names it.
    pub refusal: &'static str,
    /// The config.
    pub config: Value,
}

/// All kinds of refusal. A new variant fails to compile in [`kind`] until it is listed here and reached by a family.
pub const KINDS: [&str; 9] =
    ["Family", "Hidden", "Layers", "Vocab", "NoTaps", "TapTwice", "TapRange", "MaskToken", "Width"];

/// The name of a refusal.
pub fn kind(error: &PairingError) -> &'static str {
    match error {
        PairingError::Family { .. } => "Family",
        PairingError::Hidden { .. } => "Hidden",
        PairingError::Layers { .. } => "Layers",
        PairingError::Vocab { .. } => "Vocab",
        PairingError::NoTaps => "NoTaps",
        PairingError::TapTwice { .. } => "TapTwice",
        PairingError::TapRange { .. } => "TapRange",
        PairingError::MaskToken { .. } => "MaskToken",
        PairingError::Width { .. } => "Width",
    }
}

/// Every kind of refusal is reached by one of `misfits`, and each of these gets its own; the pair itself loads.
pub fn refusals(pair: &RandomPair, misfits: &[Misfit]) -> Check {
    for kind in KINDS {
        let reached = misfits.iter().any(|misfit| misfit.refusal == kind);
        ensure!(reached, "no misfit asks for the refusal {kind}");
    }
    let target = load::target(pair.target.open()?)?;
    load::drafter(pair.drafter.open()?, target.as_ref()).at("the pair itself")?;
    for misfit in misfits {
        refused(pair, target.as_ref(), misfit).at(misfit.refusal)?;
    }
    Ok(())
}

fn refused(pair: &RandomPair, target: &dyn Target, misfit: &Misfit) -> Check {
    match load::drafter(pair.drafter.open_as(misfit.config.clone())?, target) {
        Err(Error::Pairing(error)) => {
            let found = kind(&error);
            ensure!(found == misfit.refusal, "refused as {found}: {error}");
            Ok(())
        }
        Err(error) => Err(Failure::Broken(format!("refused for another reason: {error}"))),
        Ok(_) => Err(Failure::Broken("loaded".to_owned())),
    }
}

/// A drafter given as a target and a target given as a drafter are told so; so are models of no known family.
pub fn roles(pair: &RandomPair) -> Check {
    let target = load::target(pair.target.open()?)?;
    let registry = |error: Option<Error>, expected: &str| match error {
        Some(Error::Registry(error)) => Ok(error),
        Some(error) => Err(Failure::Broken(format!("{expected}: refused for another reason: {error}"))),
        None => Err(Failure::Broken(format!("{expected}: loaded"))),
    };
    let error = registry(load::target(pair.drafter.open()?).err(), "drafter as target")?;
    ensure!(matches!(error, RegistryError::DrafterAsTarget { .. }), "drafter as target: {error}");
    let error = registry(load::drafter(pair.target.open()?, target.as_ref()).err(), "target as drafter")?;
    ensure!(matches!(error, RegistryError::TargetAsDrafter { .. }), "target as drafter: {error}");
    let unknown = serde_json::json!({ "model_type": "no such model" });
    let error = registry(load::target(pair.target.open_as(unknown.clone())?).err(), "unknown target")?;
    ensure!(matches!(error, RegistryError::UnknownModelType { .. }), "unknown target: {error}");
    let opened = pair.drafter.open_as(unknown)?;
    let error = registry(load::drafter(opened, target.as_ref()).err(), "unknown drafter")?;
    ensure!(matches!(error, RegistryError::UnknownDrafter { .. }), "unknown drafter: {error}");
    Ok(())
}
