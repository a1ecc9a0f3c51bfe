//! Segments of several sequences in one forward give what each gives alone, bit for bit.

use mlxcel_core::{
    Kept, TokenId, Width,
    family::{self, LogitRows, Segment, Target, Want},
    state::SequenceState,
};

use crate::{At as _, Check, compare::same_bits, drive, ensure, exactness::same_states};

/// Blocks of these many rows share a forward: classic decoding next to blocks of all widths.
const MIX: [usize; 5] = [1, 4, 1, 8, 3];

/// Verify blocks of mixed length, over sequences of mixed length, in one forward and in every order of two; a family that
/// takes one segment at a time is given one at a time.
pub fn mixed(target: &dyn Target, tokens: &[TokenId]) -> Check {
    let prompts: Vec<_> = (0..MIX.len()).map(|i| &tokens[i..2 * i + 3]).collect();
    let blocks: Vec<_> = MIX.iter().enumerate().map(|(i, rows)| &tokens[3 * i..3 * i + rows]).collect();
    let taps = [0, target.spec().layers - 2];
    let start: Vec<_> = prompts.iter().map(|prompt| prefilled(target, prompt)).collect::<Result<_, _>>()?;

    let alone: Vec<_> = start
        .iter()
        .zip(&blocks)
        .map(|(state, block)| Ok(together(target, vec![state.fork()], &[block], &taps)?.remove(0)))
        .collect::<Result<_, crate::Failure>>()?;
    for order in [vec![0, 1, 2, 3, 4], vec![4, 3, 2, 1, 0], vec![1, 3], vec![3, 0]] {
        let states = order.iter().map(|i| start[*i].fork()).collect();
        let parts: Vec<_> = order.iter().map(|i| blocks[*i]).collect();
        let found = together(target, states, &parts, &taps)?;
        for (i, found) in order.iter().zip(&found) {
            let place = format!("block of {} rows among {}", MIX[*i], order.len());
            found.same(&alone[*i]).at(place)?;
        }
    }
    Ok(())
}

/// What a segment got.
struct Got {
    logits: Vec<f32>,
    taps: Vec<f32>,
    state: SequenceState,
}

impl Got {
    fn same(&self, alone: &Self) -> Check {
        same_bits("logits", &self.logits, &alone.logits)?;
        same_bits("taps", &self.taps, &alone.taps)?;
        same_states(&self.state, &alone.state)
    }
}

fn prefilled(target: &dyn Target, prompt: &[TokenId]) -> Result<SequenceState, crate::Failure> {
    let mut state = target.new_state(Width::EIGHT);
    drive::prefill(target, &mut state, prompt)?;
    Ok(state)
}

fn together(
    target: &dyn Target,
    mut states: Vec<SequenceState>,
    blocks: &[&[TokenId]],
    taps: &[usize],
) -> Result<Vec<Got>, crate::Failure> {
    for (state, block) in states.iter_mut().zip(blocks) {
        state.begin(Width::new(block.len()).unwrap_or(Width::ONE))?;
    }
    let want = Want { logits: LogitRows::All, taps };
    let mut segments: Vec<_> =
        states.iter_mut().zip(blocks).map(|(state, tokens)| Segment { tokens, state, want }).collect();
    let outputs = family::forward(target, &mut segments)?;
    ensure!(outputs.len() == blocks.len(), "{} segments gave {} outputs", blocks.len(), outputs.len());
    let mut got = Vec::with_capacity(blocks.len());
    for ((mut state, block), output) in states.into_iter().zip(blocks).zip(outputs) {
        // All but one row stay: uneven acceptance is ordinary.
        state.commit(Kept(block.len().max(2) - 1))?;
        let logits = drive::logits_of(&output, block.len())?;
        let taps = match &output.taps {
            Some(taps) => taps.to_host()?.into_owned(),
            None => Vec::new(),
        };
        ensure!(!taps.is_empty(), "no taps came back");
        got.push(Got { logits, taps, state });
    }
    Ok(got)
}
