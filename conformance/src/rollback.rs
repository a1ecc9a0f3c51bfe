//! Rows taken back: after `commit(k)` a state is that of k tokens decoded one by one, bit for bit (S1).

use mlxcel_core::{Kept, TokenId, Width, family::Target, state::SequenceState};

use crate::{At as _, Check, compare::same_bits, drive, ensure, exactness::same_states};

/// Every accepted count of a block of every width: the state's contents, its length, and the logits of a row after it.
pub fn every_count(target: &dyn Target, prompt: &[TokenId], block: &[TokenId], widths: &[Width]) -> Check {
    let mut prefilled = target.new_state(Width::new(block.len()).unwrap_or(Width::ONE));
    drive::prefill(target, &mut prefilled, prompt)?;
    let mut chains = vec![prefilled.fork()];
    for token in block {
        let mut next = chains[chains.len() - 1].fork();
        drive::chain(target, &mut next, &[*token])?;
        chains.push(next);
    }
    for width in widths.iter().filter(|width| width.rows() <= block.len()) {
        for (kept, chain) in chains.iter().enumerate().take(width.rows() + 1) {
            let place = format!("{kept} of {width} rows kept");
            let mut state = prefilled.fork();
            drive::block(target, &mut state, &block[..width.rows()], Kept(kept)).at(&place)?;
            same_state(target, &mut state, &mut chain.fork(), block[0]).at(&place)?;
        }
    }
    Ok(())
}

/// Blocks that follow each other, partly kept, leave what a chain leaves.
pub fn block_after_block(target: &dyn Target, prompt: &[TokenId], block: &[TokenId]) -> Check {
    let mut blocks = target.new_state(Width::new(block.len()).unwrap_or(Width::ONE));
    drive::prefill(target, &mut blocks, prompt)?;
    let mut chain = blocks.fork();
    for kept in (0..=block.len()).chain((0..=block.len()).rev()) {
        drive::block(target, &mut blocks, block, Kept(kept))?;
        drive::chain(target, &mut chain, &block[..kept])?;
        same_states(&blocks, &chain).at(format_args!("{kept} of {} rows kept", block.len()))?;
    }
    Ok(())
}

/// A fork is bit-equal, and neither side sees what the other appends.
pub fn fork(target: &dyn Target, prompt: &[TokenId], block: &[TokenId]) -> Check {
    let mut state = target.new_state(Width::ONE);
    drive::prefill(target, &mut state, prompt)?;
    let before = state.contents()?;
    let mut fork = state.fork();
    same_states(&fork, &state).at("a fresh fork")?;
    drive::chain(target, &mut fork, block)?;
    for (layer, (a, b)) in state.contents()?.iter().zip(&before).enumerate() {
        same_bits(&format!("layer {layer} after its fork was written"), a, b)?;
    }
    drive::chain(target, &mut state, block)?;
    same_states(&fork, &state).at("a fork that decoded the same tokens")
}

/// Buffers that grow on the way (they do so by 256 rows) hold what they held: a chain and blocks over the border, after
/// a prompt in one piece and in two.
pub fn growth(target: &dyn Target, tokens: &[TokenId]) -> Check {
    ensure!(tokens.len() > 280, "fixture: {} tokens do not cross 256 rows", tokens.len());
    let width = Width::new(tokens.len()).unwrap_or(Width::ONE);
    for start in [249, 255, 256] {
        let place = format!("prompt of {start} rows");
        let mut whole = target.new_state(width);
        drive::prefill(target, &mut whole, &tokens[..start])?;
        let mut chain = whole.fork();
        drive::chain(target, &mut chain, &tokens[start..start + 12])?;
        for rows in [4, 12] {
            let mut blocks = whole.fork();
            for block in tokens[start..start + 12].chunks(rows) {
                // A wrong block over the border first, all of it taken back.
                drive::block(target, &mut blocks, &tokens[..rows], Kept(0)).at(&place)?;
                drive::block(target, &mut blocks, block, Kept(block.len())).at(&place)?;
            }
            same_states(&blocks, &chain).at(format_args!("{place}, blocks of {rows}"))?;
        }
    }
    Ok(())
}

/// Slack is room only: states made for narrow and for wide blocks give the same bits.
pub fn slack(target: &dyn Target, prompt: &[TokenId], block: &[TokenId]) -> Check {
    let state = |rows: usize| target.new_state(Width::new(rows).unwrap_or(Width::ONE));
    let mut narrow = state(block.len());
    drive::prefill(target, &mut narrow, prompt)?;
    let expected = drive::block(target, &mut narrow, block, Kept(1))?;
    for rows in [32, 128, 200] {
        let mut wide = state(rows);
        drive::prefill(target, &mut wide, prompt)?;
        let found = drive::block(target, &mut wide, block, Kept(1))?;
        same_bits(&format!("logits with slack {rows}"), &found, &expected)?;
        same_states(&wide, &narrow).at(format_args!("slack {rows}"))?;
    }
    Ok(())
}

fn same_state(
    target: &dyn Target,
    found: &mut SequenceState,
    expected: &mut SequenceState,
    next: TokenId,
) -> Check {
    let (a, b) = (found.len()?, expected.len()?);
    ensure!(a == b, "the state holds {a} rows, expected {b}");
    same_states(found, expected)?;
    let after = drive::chain(target, found, &[next])?;
    same_bits("logits of the next row", &after, &drive::chain(target, expected, &[next])?)
}
