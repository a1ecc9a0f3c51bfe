//! States made for blocks of any width: they take such blocks at once, hold no more than they should, and take rows back.

use mlxcel_core::{
    Kept, TokenId, Width,
    family::Target,
    state::{LayerState, SequenceState},
};

use crate::{At as _, Check, drive, ensure, exactness::same_states};

/// Widths that states are made for: those of blocks as they run, and two past any fixed slack.
pub const WIDTHS: [usize; 6] = [1, 2, 4, 16, 129, 256];

/// Blocks of the width that a state was made for, kept whole, half, not at all and by one row: each leaves the state of
/// a chain, and windows hold the rows they need and their slack, no more.
pub fn at_every_width(target: &dyn Target, prompt: &[TokenId], tokens: &[TokenId]) -> Check {
    for rows in WIDTHS {
        ensure!(tokens.len() >= 2 * rows, "fixture: {} tokens for blocks of {rows}", tokens.len());
        let width = Width::new(rows).unwrap_or(Width::ONE);
        let mut blocks = target.new_state(width);
        drive::prefill(target, &mut blocks, prompt)?;
        let mut chain = target.new_state(Width::ONE);
        drive::prefill(target, &mut chain, prompt)?;
        let mut next = 0;
        for kept in [rows, rows / 2, 0, 1] {
            let place = format!("width {rows}, {kept} kept");
            let block = &tokens[next..(next + rows).min(tokens.len())];
            let kept = kept.min(block.len());
            drive::block(target, &mut blocks, block, Kept(kept)).at(&place)?;
            drive::chain(target, &mut chain, &block[..kept]).at(&place)?;
            next += kept;
            same_states(&blocks, &chain).at(&place)?;
            holds_what_it_should(&blocks, width).at(&place)?;
        }
    }
    Ok(())
}

/// Attention that sees everything holds every row. A window of W rows holds those that the next query sees, and no more
/// than `W + max(clamp(8 · width, 32, 128), width)` rows.
pub fn holds_what_it_should(state: &SequenceState, width: Width) -> Check {
    let len = state.len()?;
    let slack = (8 * width.rows()).clamp(32, 128).max(width.rows());
    for (layer, state) in state.layer_states().iter().enumerate() {
        let (held, needed, most) = match state {
            LayerState::Kv(state) => (state.positions(), len, len),
            LayerState::Window(state) => {
                (state.positions(), len.min(state.window() - 1), state.window() + slack)
            }
            // Of a fixed size.
            LayerState::Conv(_) | LayerState::Delta(_) => continue,
        };
        ensure!(
            held.end == len && (needed..=most).contains(&held.len()),
            "layer {layer} holds the rows {held:?} of {len}, expected the newest {needed} to {most}"
        );
    }
    Ok(())
}
