//! A target with its drafter, loaded.

use std::{path::Path, sync::Arc};

use mlxcel_core::{
    checkpoint::Checkpoint,
    exactness::Gate,
    family,
    family::{Drafter, Target},
    nn::Executor,
    sampling::Vocabulary,
    speculative::Models,
};

use crate::{At as _, Failure, text::Text};

/// A target with its drafter.
pub struct Pair {
    /// What messages call it.
    pub name: String,
    /// The target.
    pub target: Box<dyn Target>,
    /// The drafter.
    pub drafter: Box<dyn Drafter>,
    /// The ids that may be emitted.
    pub vocabulary: Arc<Vocabulary>,
}

impl Pair {
    /// Loads both folders; only ids that the target's tokenizer knows may be emitted.
    pub fn open(target: &Path, drafter: &Path) -> Result<(Self, Text), Failure> {
        Self::open_on(target, drafter, Executor::detect().at("the executor")?)
    }

    /// As [`Self::open`], on an executor of choice.
    pub fn open_on(target: &Path, drafter: &Path, executor: Executor) -> Result<(Self, Text), Failure> {
        let name = format!("{} with {}", short(target), short(drafter));
        let text = Text::open(target)?;
        let target = family::load_target(Checkpoint::open(target)?, executor).at(&name)?;
        let drafter =
            family::load_drafter(Checkpoint::open(drafter)?, target.as_ref(), executor).at(&name)?;
        let spec = target.spec();
        let vocabulary = Vocabulary::new(spec.vocab, |id| text.knows(id), &spec.suppressed);
        Ok((Self { name, target, drafter, vocabulary: Arc::new(vocabulary) }, text))
    }

    /// Both models, for a run.
    pub fn models(&self) -> Models<'_> {
        Models {
            target: self.target.as_ref(),
            drafter: Some(self.drafter.as_ref()),
            vocabulary: &self.vocabulary,
            // Checks look at what every width does.
            gate: Gate::unguarded(),
        }
    }
}

/// The last two parts of a path.
fn short(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts[parts.len().saturating_sub(2)..].join("/")
}
