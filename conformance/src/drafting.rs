//! What a drafter keeps of a sequence does not depend on the pieces it came in.

use mlxcel_core::{
    Position, Result, TokenId, Width,
    family::{Draft, Drafter, DrafterContext, Observe, Pick, Target, Want},
    nn::Tensor,
};

use crate::{At as _, Check, Failure, compare::same_bits, drive, ensure};

/// The same committed rows, observed whole, row by row and in uneven pieces, give the same logits bit for bit: a single
/// row into a full window, as a round with nothing accepted brings it, included. A draft leaves nothing behind.
pub fn pieces(target: &dyn Target, drafter: &dyn Drafter, prompt: &[TokenId]) -> Check {
    let taps = taps(target, drafter, prompt)?;
    let whole = logits(drafter, &mut observed(drafter, &taps, prompt.len(), false)?, prompt)?;
    for piece in [1, 3, 17] {
        for drafts_between in [false, true] {
            let mut context = observed(drafter, &taps, piece, drafts_between)?;
            let place = format!("pieces of {piece}, drafts between them: {drafts_between}");
            let found = logits(drafter, &mut context, prompt)?;
            same_bits("the drafter's logits", &found, &whole).at(place)?;
        }
    }
    Ok(())
}

/// The taps of a prompt, `[rows, taps · hidden]`.
fn taps(target: &dyn Target, drafter: &dyn Drafter, prompt: &[TokenId]) -> Result<Tensor, Failure> {
    let mut state = target.new_state(Width::ONE);
    let want = Want { taps: &drafter.spec().taps, ..Want::default() };
    let output = drive::forward(target, &mut state, prompt, want)?;
    output.taps.ok_or_else(|| Failure::Broken("no taps came back".to_owned()))
}

/// A context of all rows of `taps`, observed in pieces of `piece` rows, with a draft after each if asked for.
fn observed(
    drafter: &dyn Drafter,
    taps: &Tensor,
    piece: usize,
    drafts_between: bool,
) -> Result<DrafterContext, Failure> {
    let mut context = drafter.new_context();
    for start in (0..taps.rows()).step_by(piece) {
        let rows = taps.slice_rows(start..(start + piece).min(taps.rows()))?;
        let job = Observe { context: &mut context, taps: &rows, start: Position(start) };
        drafter.observe(&mut [job])?;
        if drafts_between {
            let before = context.len();
            draft(drafter, &mut context, TokenId(1))?;
            ensure!(context.len() == before, "a draft left {} rows, expected {before}", context.len());
        }
    }
    Ok(context)
}

/// The logits of a draft of every proposal that the drafter was trained for.
fn logits(
    drafter: &dyn Drafter,
    context: &mut DrafterContext,
    prompt: &[TokenId],
) -> Result<Vec<f32>, Failure> {
    draft(drafter, context, prompt[0])
}

fn draft(drafter: &dyn Drafter, context: &mut DrafterContext, anchor: TokenId) -> Result<Vec<f32>, Failure> {
    let (position, count) = (Position(context.len()), drafter.spec().trained_width.proposals());
    let mut seen = Seen::default();
    let made = drafter.propose(&mut [Draft {
        context,
        anchor,
        position,
        count,
        pick: &mut seen,
        confidence: None,
    }])?;
    ensure!(made.len() == 1 && made[0].len() == count, "{made:?} are not {count} proposals");
    Ok(seen.0)
}

/// Remembers the logits; always picks the same.
#[derive(Default)]
struct Seen(Vec<f32>);

impl Pick for Seen {
    fn pick(&mut self, logits: &[f32]) -> Result<TokenId> {
        self.0.extend_from_slice(logits);
        Ok(TokenId(0))
    }
}
