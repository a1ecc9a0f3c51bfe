//! The errors of the core.

use crate::{TokenId, checkpoint, family, sampling, state};

/// What can go wrong between a checkpoint and a token. Each message is one line; [`std::error::Error::source`] has the
/// cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A checkpoint cannot be read or does not fit its architecture.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::CheckpointError),
    /// MLX refused an operation.
    #[error("MLX: {0}")]
    Mlx(String),
    /// A sequence state was used against its contract.
    #[error(transparent)]
    State(#[from] state::StateError),
    /// No family for a checkpoint, or the wrong kind of checkpoint.
    #[error(transparent)]
    Registry(#[from] family::RegistryError),
    /// A drafter does not fit its target.
    #[error(transparent)]
    Pairing(#[from] family::PairingError),
    /// Flags that ask for speculation which cannot be served.
    #[error(transparent)]
    Start(#[from] family::StartError),
    /// Sampling settings out of range, or logits that no token can be decided from.
    #[error(transparent)]
    Sampling(#[from] sampling::SamplingError),
    /// Weights that the kernels cannot pack.
    #[error(transparent)]
    Pack(#[from] mlxcel_kernels::linear::PackError),
    /// Values of different executors meet: a fault of the caller.
    #[error("values of the MLX executor meet values of the CPU executor")]
    Executors,
    /// A dtype that no executor computes with.
    #[error("dtype {found}, expected f32, f16 or bf16")]
    Dtype {
        /// The dtype.
        found: String,
    },
    /// A token id outside the target's vocabulary.
    #[error("token id {token} is outside the vocabulary of {vocab}")]
    TokenOutOfRange {
        /// The id.
        token: TokenId,
        /// Ids of the vocabulary.
        vocab: usize,
    },
    /// A request without a prompt token.
    #[error("the prompt is empty: at least one token is needed")]
    EmptyPrompt,
    /// A segment without a token.
    #[error("a segment has no token")]
    EmptySegment,
    /// A prompt that leaves no room for an answer.
    #[error("the prompt has {tokens} tokens, and the context holds {context}: nothing can be generated\nhint: shorten the prompt to at most {} tokens", context - 1)]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Rows of the context.
        context: usize,
    },
    /// A forward past the end of the context.
    #[error("a forward needs {needed} rows of context, and the model has {context}")]
    ContextFull {
        /// Rows needed.
        needed: usize,
        /// Rows there are.
        context: usize,
    },
    /// Two sizes that must be equal are not: a fault of the caller, caught before MLX sees it.
    #[error("{what}: found {found}, expected {expected}")]
    Shape {
        /// What was measured.
        what: &'static str,
        /// Its size.
        found: usize,
        /// The size that fits.
        expected: usize,
    },
    /// A verify forward that captured fewer taps than the drafter reads.
    #[error("the forward captured {found} taps of {expected}")]
    MissingTaps {
        /// Taps captured.
        found: usize,
        /// Taps wanted.
        expected: usize,
    },
    /// A drafter panicked.
    #[error("a panic: {what}")]
    Panicked {
        /// Its message.
        what: String,
    },
    /// A block wider than the drafter was trained for.
    #[error("a block of {found} rows is over the limit of this drafter\nhint: use a width of 1 to {limit}")]
    WidthOverLimit {
        /// Width asked for.
        found: usize,
        /// Trained width.
        limit: usize,
    },
}

impl Error {
    pub(crate) fn shape(what: &'static str, found: usize, expected: usize) -> Self {
        Self::Shape { what, found, expected }
    }
}

impl From<mlx_rs::error::Exception> for Error {
    fn from(error: mlx_rs::error::Exception) -> Self {
        Self::Mlx(error.what().to_owned())
    }
}

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
