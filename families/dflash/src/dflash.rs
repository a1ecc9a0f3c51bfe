//! DFlash: the block's rows after the anchor are the proposals, all at once (spec 4.3).

use mlxcel_core::{
    Error, Result, Width,
    checkpoint::{Checkpoint, Config as Json},
    family::{
        Bound, Draft, Drafter, DrafterContext, DrafterFamily, DrafterSpec, Observe, Proposals, check_pairing,
    },
    nn::{Executor, Linear, Loader, scale, softcap},
};

use crate::{
    backbone::Backbone,
    config::{Config, POSITIVE, ROPE_THETA, trained_width},
};

/// A drafter whose block's rows after the anchor are the proposals, all at once, from the target's raw head.
pub struct DFlash {
    spec: DrafterSpec,
    backbone: Backbone,
    head: Linear,
    /// Factor on the logits, and the bound that they are pressed under after it.
    output_multiplier: f32,
    softcap: Option<f32>,
}

impl DFlash {
    /// The drafter of `family` with this shape, to start with blocks of up to `default_width` rows. Checks the pairing
    /// first, then takes all tensors of `checkpoint`, by the names of spec 4.2.
    pub fn load(
        family: &DrafterFamily,
        config: &Config,
        default_width: Width,
        checkpoint: &Checkpoint,
        executor: Executor,
        bound: &Bound<'_>,
    ) -> Result<Self> {
        let trained_width = trained_width(checkpoint.config())?;
        let spec = DrafterSpec {
            family: family.name,
            taps: config.taps.clone(),
            hidden: config.hidden,
            mask_token: config.mask_token,
            trained_width,
            reach: config.reach(),
            default_width: trained_width.min(default_width),
        };
        check_pairing(&spec, bound.spec, config.target_layers, config.vocab)?;
        let backbone = Backbone::load(config, trained_width, &Loader::new(checkpoint, executor), bound)?;
        checkpoint.finish()?;
        Ok(Self { spec, backbone, head: bound.head.clone(), output_multiplier: 1.0, softcap: None })
    }
}

pub(crate) fn load(
    family: &DrafterFamily,
    checkpoint: Checkpoint,
    executor: Executor,
    bound: &Bound<'_>,
) -> Result<Box<dyn Drafter>> {
    let json = checkpoint.config();
    refuse_dflash2(json)?;
    let config = Config::read(json, ROPE_THETA)?;
    let own = json.opt_section("dflash_config")?;
    let own = own.as_ref().unwrap_or(json);
    let output_multiplier = own.opt_float_in("output_multiplier", POSITIVE)?.unwrap_or(1.0) as f32;
    let softcap = own.opt_float_in("final_logit_softcapping", POSITIVE)?.map(|cap| cap as f32);
    let checkpoint = checkpoint.with_names(strip_model)?;
    let drafter = DFlash::load(family, &config, Width::EIGHT, &checkpoint, executor, bound)?;
    Ok(Box::new(DFlash { output_multiplier, softcap, ..drafter }))
}

/// DFlash 2 adds a convolution around every operator and a selector of candidates (spec 4.1).
fn refuse_dflash2(json: &Json) -> Result<()> {
    let names = json.opt_list_of_str("architectures")?.unwrap_or_default();
    if names.iter().any(|name| name.contains("DFlash2")) {
        return json.reject("architectures", "\"DFlashDraftModel\": DFlash 2 is not supported");
    }
    let nested = json.opt_section("dflash_config")?;
    for section in [Some(json), nested.as_ref()].into_iter().flatten() {
        for field in ["selector_rank", "selector_top_k", "conv_kernel_size", "conv_group_size"] {
            if section.has(field) {
                return section.reject(field, "no such field: DFlash 2 is not supported");
            }
        }
    }
    Ok(())
}

/// Some packagings put `model.` in front of every name.
#[expect(clippy::unnecessary_wraps, reason = "the shape of a rename rule")]
pub(crate) fn strip_model(name: &str) -> Option<String> {
    Some(name.strip_prefix("model.").unwrap_or(name).to_owned())
}

impl Drafter for DFlash {
    fn spec(&self) -> &DrafterSpec {
        &self.spec
    }

    fn new_context(&self) -> DrafterContext {
        self.backbone.new_context()
    }

    fn observe(&self, jobs: &mut [Observe<'_>]) -> Result<()> {
        self.backbone.observe(jobs)
    }

    fn propose(&self, jobs: &mut [Draft<'_>]) -> Result<Vec<Proposals>> {
        jobs.iter_mut().map(|job| self.propose_one(job)).collect()
    }
}

impl DFlash {
    fn propose_one(&self, job: &mut Draft<'_>) -> Result<Proposals> {
        let rows = Width::new(job.count + 1).unwrap_or(Width::ONE);
        if rows > self.spec.trained_width {
            return Err(Error::WidthOverLimit { found: rows.rows(), limit: self.spec.trained_width.rows() });
        }
        let y = self.backbone.block(job.context, job.anchor, self.spec.mask_token, job.position, rows)?;
        let mut logits = self.head.forward(&y.slice_rows(1..rows.rows())?)?;
        match self.softcap {
            Some(cap) => logits = softcap(&logits, self.output_multiplier, cap)?,
            None if self.output_multiplier != 1.0 => logits = scale(&logits, self.output_multiplier)?,
            None => {}
        }
        logits.to_host()?.chunks_exact(self.head.out_features()).map(|row| job.pick.pick(row)).collect()
    }
}
