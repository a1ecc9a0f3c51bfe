//! A border that errors and panics do not cross.

use super::EngineError;
use crate::{Error, Result, speculative};

/// Runs `call`; an error or a panic in it is given back.
///
/// What `call` was changing is either taken back by the caller (`commit(0)` restores a state after a failed forward) or
/// dropped with its request.
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T, EngineError> {
    speculative::guarded(call).map_err(|error| match error {
        Error::Panicked { what } => EngineError::Panicked { message: what },
        other => EngineError::Failed { message: other.to_string() },
    })
}
