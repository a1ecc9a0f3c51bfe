//! The trained pairs of the repository.

use std::path::Path;

use crate::{Failure, pair::Pair, text::Text};

/// A trained pair of the repository.
#[derive(Clone, Copy, Debug)]
pub struct Trained {
    /// Folder of the target, relative to the root.
    pub target: &'static str,
    /// Folder of the drafter.
    pub drafter: &'static str,
    /// What [`acceptance::reaches`](crate::acceptance::reaches) asks for: more than the drafter gives with a convention
    /// broken.
    pub tokens_per_round: f64,
}

/// The pair inside the program: 4 bit, and a DSpark drafter of 8 bit.
pub const LFM2: Trained = Trained {
    target: "cli/demo/assets/lfm2/target",
    drafter: "cli/demo/assets/lfm2/drafter",
    // Measured: 2.86, and 2.54 with every tap one layer early.
    tokens_per_round: 2.7,
};

/// 4 bit, and a DFlash drafter of 4 bit.
pub const QWEN3_5: Trained = Trained {
    target: "conformance/trained/qwen3_5/target",
    drafter: "conformance/trained/qwen3_5/drafter",
    // Measured: 2.76, and 2.46.
    tokens_per_round: 2.6,
};

/// 4 bit, windows of 256 rows, and an assistant of 4 bit.
pub const MUSE_GLIMMER: Trained = Trained {
    target: "conformance/trained/muse_glimmer/target",
    drafter: "conformance/trained/muse_glimmer/drafter",
    // Measured: 2.52, and 2.12.
    tokens_per_round: 2.3,
};

impl Trained {
    /// Loads it.
    ///
    /// # Errors
    /// A family that this program does not link.
    pub fn open(&self) -> Result<(Pair, Text), Failure> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        Pair::open(&root.join(self.target), &root.join(self.drafter))
    }
}
