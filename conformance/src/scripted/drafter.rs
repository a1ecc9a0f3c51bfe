//! The scripted drafter.

use mlxcel_core::{
    Result, TokenId, Width,
    family::{Draft, Drafter, DrafterContext, DrafterSpec, Observe, Proposals},
    nn::{Attention, Tensor},
    state::KvState,
};

use super::{
    HIDDEN, Script,
    target::{history, keys},
};

/// A drafter whose logits follow a [`Script`] of the tokens that it read off the taps.
pub struct ScriptedDrafter {
    spec: DrafterSpec,
    script: Script,
    keys: Attention,
}

impl ScriptedDrafter {
    /// A drafter for `script`, for blocks of up to `trained` rows.
    pub fn new(script: Script, trained: Width) -> Self {
        let spec = DrafterSpec {
            family: "scripted",
            taps: vec![0, 1],
            hidden: HIDDEN,
            mask_token: TokenId(0),
            trained_width: trained,
            reach: None,
            default_width: trained,
        };
        Self { spec, script, keys: keys() }
    }

    fn propose_one(&self, job: &mut Draft<'_>) -> Result<Proposals> {
        let mut seen = match job.context.layers.first() {
            Some(state) => history(state)?,
            None => Vec::new(),
        };
        seen.push(job.anchor);
        for _ in 0..job.count {
            seen.push(job.pick.pick(&self.script.drafter(&seen))?);
        }
        Ok(seen.split_off(seen.len() - job.count))
    }
}

impl Drafter for ScriptedDrafter {
    fn spec(&self) -> &DrafterSpec {
        &self.spec
    }

    fn new_context(&self) -> DrafterContext {
        DrafterContext { layers: vec![KvState::new(1, HIDDEN)] }
    }

    fn observe(&self, jobs: &mut [Observe<'_>]) -> Result<()> {
        for job in jobs {
            for state in &mut job.context.layers {
                let tap = job.taps.slice_features(0..HIDDEN)?;
                self.keys.append(&Tensor::concat_features(&[tap.clone(), tap])?, state)?;
            }
        }
        Ok(())
    }

    fn propose(&self, jobs: &mut [Draft<'_>]) -> Result<Vec<Proposals>> {
        jobs.iter_mut().map(|job| self.propose_one(job)).collect()
    }
}
