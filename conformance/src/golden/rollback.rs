//! Logits after part of a block was taken back, against references that never saw the dropped rows.

use mlxcel_core::{Kept, Width, family::Target};

use super::Golden;
use crate::{At as _, Check, compare::close, drive, load};

/// For every m: the block's rows, then the follow-up tokens after m of them were kept, within 1e-3.
pub fn rollback(golden: &Golden) -> Check {
    rollback_on(load::target(golden.checkpoint()?)?.as_ref(), golden)
}

/// [`rollback`] on a target that is loaded.
pub fn rollback_on(target: &dyn Target, golden: &Golden) -> Check {
    let expected = golden.expected()?;
    let block = expected.tokens("rollback/block")?;
    let follow = expected.tokens("rollback/follow")?;
    let width = Width::new(block.len()).unwrap_or(Width::ONE);
    let mut prefilled = target.new_state(width);
    drive::prefill(target, &mut prefilled, &expected.tokens("rollback/prompt")?)?;
    for kept in 1..=block.len() {
        let place = format!("{}/rollback/keep{kept}", golden.name());
        let mut state = prefilled.fork();
        let rows = drive::block(target, &mut state, &block, Kept(kept)).at(&place)?;
        close("block", &rows, &expected.f32("rollback/block_logits")?, 1e-3).at(&place)?;
        let after = drive::chain(target, &mut state, &follow).at(&place)?;
        close("follow-up", &after, &expected.f32(&format!("rollback/keep{kept}_logits"))?, 1e-3)
            .at(&place)?;
    }
    Ok(())
}
