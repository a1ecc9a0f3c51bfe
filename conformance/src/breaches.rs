//! What the engine does wrong is an error with a name, in release builds too, never zeros and never a guess.

use mlxcel_core::{
    Error, Kept, TokenId, Width,
    family::{Target, Want},
    state::{LayerState, SequenceState, StateError, StateKind},
};

use crate::{At as _, Check, Failure, drive, ensure, exactness::same_states};

/// States with a layer too few or with two layers swapped, a rewind of more rows than came, a block that overflows, a tap
/// that no layer has: each refused by its own error, and the state is what it was once the block is taken back.
pub fn refused(target: &dyn Target, tokens: &[TokenId]) -> Check {
    let state = target.new_state(Width::EIGHT);
    let layers = state.layer_states();
    let count = layers.len();
    let mut short = SequenceState::new(layers[1..].to_vec());
    match drive::prefill(target, &mut short, tokens) {
        Err(Error::Shape { what: "layers of the state", found, expected }) => {
            ensure!((found, expected) == (count - 1, count), "{found} layers of {expected}");
        }
        other => return unexpected("a state with a layer too few", other),
    }
    let kinds: Vec<_> = layers.iter().map(LayerState::kind).collect();
    if let Some(other) = kinds.iter().position(|kind| *kind != kinds[0]) {
        let mut swapped = layers.to_vec();
        swapped.swap(0, other);
        match drive::prefill(target, &mut SequenceState::new(swapped), tokens) {
            Err(Error::State(StateError::WrongKind { .. })) => {}
            // One operator runs over a window and over all rows: it asks the state what it holds.
            Ok(()) if attention(kinds[0]) && attention(kinds[other]) => {}
            result => return unexpected("a state with two layers swapped", result),
        }
    }
    rewinds(target, tokens)?;
    let mut state = target.new_state(Width::ONE);
    let taps = [0, count];
    match drive::forward(target, &mut state, tokens, Want { taps: &taps, ..Want::default() }).map(drop) {
        Err(Error::MissingTaps { found: 1, expected: 2 }) => Ok(()),
        other => unexpected("a tap that no layer has", other),
    }
}

fn attention(kind: StateKind) -> bool {
    matches!(kind, StateKind::Kv | StateKind::Window)
}

fn rewinds(target: &dyn Target, tokens: &[TokenId]) -> Check {
    let mut state = target.new_state(Width::EIGHT);
    drive::prefill(target, &mut state, tokens)?;
    let before = state.fork();
    state.begin(Width::EIGHT)?;
    drive::prefill(target, &mut state, &tokens[..3])?;
    match state.commit(Kept(4)) {
        Err(Error::State(StateError::KeptTooMany { kept: 4, received: 3 })) => {}
        other => return unexpected("4 rows kept of 3", other),
    }
    match drive::prefill(target, &mut state, &tokens[..6]) {
        Err(Error::State(StateError::BlockOverflow { rows: 8, received: 9 })) => {}
        other => return unexpected("9 rows in a block of 8", other),
    }
    state.commit(Kept(0)).at("taking the block back")?;
    same_states(&state, &before).at("after a block that was taken back")?;
    match state.commit(Kept(0)) {
        Err(Error::State(StateError::NotOpen)) => Ok(()),
        other => unexpected("a commit without a block", other),
    }
}

fn unexpected<T>(what: &str, result: Result<T, Error>) -> Check {
    Err(Failure::Broken(match result {
        Ok(_) => format!("{what} passed"),
        Err(error) => format!("{what}: refused for another reason: {error}"),
    }))
}
