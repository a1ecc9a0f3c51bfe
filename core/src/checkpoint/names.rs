//! Renaming: families ask by the names of the architecture, whatever layout the files use.

use std::collections::BTreeMap;

use super::quantization::Rule;
use super::{Checkpoint, CheckpointError, Result};

/// Ending of the tensor by which a module path is renamed.
const WEIGHT: &str = ".weight";

impl Checkpoint {
    /// Renames every tensor by `rule` (`None`: not part of this model), and the module paths of the quantization block
    /// by what `rule` makes of their `.weight`. Called once, before anything is read.
    ///
    /// # Errors
    /// [`CheckpointError::NameCollision`] if two tensors get one name.
    pub fn with_names(mut self, rule: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut origins = BTreeMap::<String, String>::new();
        let mut tensors = BTreeMap::new();
        for (old, entry) in std::mem::take(&mut self.tensors) {
            let Some(new) = rule(&old) else { continue };
            if let Some(first) = origins.insert(new.clone(), old.clone()) {
                return Err(CheckpointError::NameCollision { name: new, first, second: old });
            }
            tensors.insert(new, entry);
        }
        self.tensors = tensors;
        let mut modules = BTreeMap::<String, (String, Rule)>::new();
        for (old, rule_of_module) in std::mem::take(&mut self.quantization.modules) {
            let renamed = rule(&format!("{old}{WEIGHT}"));
            let Some(new) = renamed.as_deref().and_then(|name| name.strip_suffix(WEIGHT)) else { continue };
            // Both spellings of one module are fine as long as they say the same.
            match modules.get(new) {
                Some((first, other)) if *other != rule_of_module => {
                    return Err(CheckpointError::NameCollision {
                        name: format!("quantization.{new}"),
                        first: first.clone(),
                        second: old,
                    });
                }
                _ => modules.insert(new.to_owned(), (old, rule_of_module)),
            };
        }
        self.quantization.modules = modules.into_iter().map(|(name, (_, rule))| (name, rule)).collect();
        Ok(self)
    }
}
