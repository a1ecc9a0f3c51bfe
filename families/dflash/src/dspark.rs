//! DSpark: every row of the block proposes, and a Markov head chains the proposals (spec 5.3).

use mlxcel_core::{
    Error, Result, Width,
    checkpoint::{Checkpoint, Config as Json},
    family::{
        Bound, Draft, Drafter, DrafterContext, DrafterFamily, DrafterSpec, Observe, Proposals, check_pairing,
    },
    nn::{Embedding, Executor, Linear, Loader, Mask, Tensor},
};

use crate::{
    backbone::Backbone,
    config::{self, Config, ROPE_THETA},
    dflash::strip_model,
};

struct DSpark {
    spec: DrafterSpec,
    backbone: Backbone,
    head: Linear,
    markov: MarkovHead,
}

/// `W2 · W1[previous]`: what the previous token says of the next, added to the head's logits.
struct MarkovHead {
    w1: Embedding,
    w2: Linear,
}

pub(crate) fn load(
    family: &DrafterFamily,
    checkpoint: Checkpoint,
    executor: Executor,
    bound: &Bound<'_>,
) -> Result<Box<dyn Drafter>> {
    let json = checkpoint.config();
    let config = Config::read(json, ROPE_THETA)?;
    refuse_other_forms(json, bound.spec.vocab)?;
    if config.masks.iter().any(|mask| *mask != Mask::Full) {
        return json.reject("layer_types", "\"full_attention\" only, not causal");
    }
    let trained_width = trained_width(json)?;
    let spec = DrafterSpec {
        family: family.name,
        taps: config.taps.clone(),
        hidden: config.hidden,
        mask_token: config.mask_token,
        trained_width,
        reach: config.reach(),
        default_width: trained_width.min(Width::EIGHT),
    };
    check_pairing(&spec, bound.spec, config.target_layers, config.vocab)?;

    let checkpoint = checkpoint.with_names(strip_model)?;
    let json = checkpoint.config();
    let loader = Loader::new(&checkpoint, executor);
    let (rank, vocab) = (json.dim("markov_rank")?, bound.spec.vocab);
    let markov = MarkovHead {
        w1: Embedding::load(&loader, "markov_head.markov_w1", vocab, rank)?,
        w2: Linear::load(&loader, "markov_head.markov_w2", vocab, rank)?,
    };
    check_confidence_head(json, &loader, config.hidden, rank)?;
    let backbone = Backbone::load(&config, trained_width, &loader, bound)?;
    checkpoint.finish()?;
    Ok(Box::new(DSpark { spec, backbone, head: bound.head.clone(), markov }))
}

/// The width that a drafter with this config was trained for: `block_size` counts proposals here, and the verify block has the
/// anchor in front.
pub(crate) fn trained_width(json: &Json) -> Result<Width> {
    let block = config::trained_width(json)?;
    let anchored = json.bool_or("dspark_bonus_anchor", false)?;
    Ok(if anchored { block } else { Width::new(block.rows() + 1).unwrap_or(block) })
}

/// Packagings of other systems that this crate does not read (spec 5.1).
fn refuse_other_forms(json: &Json, vocab: usize) -> Result<()> {
    if let Some(kind) = json.opt_str("markov_head_type")?
        && kind != "vanilla"
    {
        return json.reject("markov_head_type", "\"vanilla\"");
    }
    if let Some(draft) = json.opt_dim("draft_vocab_size")?
        && draft != vocab
    {
        return json.reject("draft_vocab_size", &format!("the target's vocabulary of {vocab}"));
    }
    if json.opt_bool("sample_from_anchor")? == Some(false) {
        return json.reject("sample_from_anchor", "true");
    }
    Ok(())
}

/// The confidence head predicts acceptance. It is read and checked here; proposals do not depend on it.
fn check_confidence_head(json: &Json, loader: &Loader<'_>, hidden: usize, rank: usize) -> Result<()> {
    if json.bool_or("enable_confidence_head", false)? {
        let with_markov = json.bool_or("confidence_head_with_markov", true)?;
        let input = if with_markov { hidden + rank } else { hidden };
        loader.checkpoint().array_f32("confidence_head.proj.weight", &[1, input])?;
        loader.vector("confidence_head.proj.bias", 1)?;
    }
    Ok(())
}

impl Drafter for DSpark {
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

impl DSpark {
    fn propose_one(&self, job: &mut Draft<'_>) -> Result<Proposals> {
        let Some(rows) = Width::new(job.count) else { return Ok(Vec::new()) };
        if job.count >= self.spec.trained_width.rows() {
            return Err(Error::WidthOverLimit {
                found: job.count + 1,
                limit: self.spec.trained_width.rows(),
            });
        }
        let y = self.backbone.block(job.context, job.anchor, self.spec.mask_token, job.position, rows)?;
        let logits = self.head.forward(&y)?;
        let mut previous = job.anchor;
        let mut proposals = Vec::with_capacity(job.count);
        for row in 0..job.count {
            let mut chained = self.markov.forward(previous)?;
            chained.add_assign(&logits.slice_rows(row..row + 1)?)?;
            previous = job.pick.pick(&chained.to_host()?)?;
            proposals.push(previous);
        }
        Ok(proposals)
    }
}

impl MarkovHead {
    /// The bias that `previous` puts on the next token's logits, `[1, vocab]`.
    fn forward(&self, previous: mlxcel_core::TokenId) -> Result<Tensor> {
        self.w2.forward(&self.w1.lookup(&[previous])?)
    }
}
