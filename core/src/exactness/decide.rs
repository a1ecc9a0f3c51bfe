//! Rows of logits to decisions.

use crate::{
    Position, Result, TokenId,
    nn::Tensor,
    sampling::{Decision, History, Sampler},
};

/// Decides the rows of a block of known tokens: what the round does with a forward's logits. The gate compares what it
/// makes of a block with what it makes of single rows.
pub trait DecideRows {
    /// The decisions for `logits`, `[rows, vocab]`, the first of them at `position`.
    ///
    /// `history` holds the tokens before the first row's decision; row i is decided with it extended by the first i of
    /// `follow`, the block's tokens after its anchor, and it is handed back as it was.
    fn decide_rows(
        &self,
        sampler: &Sampler,
        logits: &Tensor,
        position: Position,
        history: &mut History,
        follow: &[TokenId],
    ) -> Result<Vec<Decision>>;
}

/// Row by row on the host.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostDecide;

impl DecideRows for HostDecide {
    fn decide_rows(
        &self,
        sampler: &Sampler,
        logits: &Tensor,
        position: Position,
        history: &mut History,
        follow: &[TokenId],
    ) -> Result<Vec<Decision>> {
        let (len, width) = (history.output().len(), logits.width());
        let host = logits.to_host()?;
        let mut decisions = Vec::with_capacity(logits.rows());
        for (i, row) in host.chunks_exact(width).enumerate() {
            if let Some(token) = i.checked_sub(1).and_then(|before| follow.get(before)) {
                history.push(*token);
            }
            decisions.push(sampler.decide(row, position.plus(i), history, &[])?);
        }
        history.truncate(len);
        Ok(decisions)
    }
}
