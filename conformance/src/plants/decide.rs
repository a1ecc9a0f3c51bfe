//! Decisions with a defect.

use mlxcel_core::{
    Position, Result, TokenId,
    exactness::{DecideRows, HostDecide},
    nn::Tensor,
    sampling::{Decision, History, Sampler},
};

/// Decides on the host, and in blocks of this many rows the last row's token is another one.
#[derive(Clone, Copy, Debug)]
pub struct PlantedDecide(pub usize);

impl DecideRows for PlantedDecide {
    fn decide_rows(
        &self,
        sampler: &Sampler,
        logits: &Tensor,
        position: Position,
        history: &mut History,
        follow: &[TokenId],
    ) -> Result<Vec<Decision>> {
        let mut decisions = HostDecide.decide_rows(sampler, logits, position, history, follow)?;
        if let Some(last) = decisions.last_mut().filter(|_| logits.rows() == self.0) {
            last.token = TokenId((last.token.0 + 1) % logits.width() as u32);
        }
        Ok(decisions)
    }
}
