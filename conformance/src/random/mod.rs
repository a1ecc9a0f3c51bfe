//! Tiny random checkpoints, made in the test: every shape that a family's loader branches on, from a seed.

pub mod assistant;
mod backbone;
pub mod dflash;
pub mod dspark;
pub mod lfm2;
pub mod muse;
pub mod qwen;
mod weights;

use mlxcel_core::{
    TokenId,
    checkpoint::{Checkpoint, CheckpointWriter},
};
use serde_json::Value;

use crate::{Failure, load, pair::Pair, rounds::whole_vocabulary};

pub use weights::{Numbers, Packed, Weights};

/// A target and a drafter of random weights.
#[derive(Clone, Debug)]
pub struct RandomPair {
    /// What is special about its shape.
    pub name: &'static str,
    /// The target.
    pub target: RandomModel,
    /// The drafter, of the target's shape.
    pub drafter: RandomModel,
}

/// A checkpoint of random weights.
#[derive(Clone, Debug)]
pub struct RandomModel {
    /// `config.json`
    pub config: Value,
    /// The tensors.
    pub tensors: CheckpointWriter,
}

impl RandomModel {
    /// The checkpoint, written to a folder of its own and opened.
    pub fn open(&self) -> Result<Checkpoint, Failure> {
        self.open_as(self.config.clone())
    }

    /// The same tensors under another `config.json`.
    pub fn open_as(&self, config: Value) -> Result<Checkpoint, Failure> {
        let folder = tempfile::tempdir()?;
        self.tensors.clone().config(config).write(folder.path())?;
        // The mapped files stay readable after the folder is gone.
        Ok(Checkpoint::open(folder.path())?)
    }
}

impl RandomPair {
    /// Both models, loaded.
    pub fn load(&self) -> Result<Pair, Failure> {
        self.load_as(self.target.config.clone())
    }

    /// Both models, the target under another `config.json`.
    pub fn load_as(&self, target_config: Value) -> Result<Pair, Failure> {
        let target = load::target(self.target.open_as(target_config)?)?;
        let drafter = load::drafter(self.drafter.open()?, target.as_ref())?;
        let vocabulary = whole_vocabulary(target.spec().vocab);
        Ok(Pair { name: self.name.to_owned(), target, drafter, vocabulary })
    }
}

/// `len` random tokens below `vocab`.
pub fn tokens(seed: u64, len: usize, vocab: usize) -> Vec<TokenId> {
    let mut numbers = Numbers::new(seed);
    (0..len).map(|_| TokenId((numbers.next_u64() % vocab as u64) as u32)).collect()
}
