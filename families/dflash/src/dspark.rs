//! DSpark: every row of the block proposes, and a Markov head chains the proposals (spec 5.3).

use mlxcel_core::{
    Error, Result, TokenId, Width,
    checkpoint::{Checkpoint, Config as Json},
    family::{
        Bound, Draft, Drafter, DrafterContext, DrafterFamily, DrafterSpec, Observe, Proposals, check_pairing,
    },
    nn::{Embedding, Executor, Linear, Loader, Mask},
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
    confidence: Option<ConfidenceHead>,
}

/// `W2 · W1[previous]`: what the previous token says of the next, added to the head's logits.
struct MarkovHead {
    w1: Embedding,
    w2: Linear,
}

/// `σ(proj · [y ; W1[previous]] + bias)`: the chance that the target takes a row's proposal, if it took all before it.
/// Proposals do not depend on it.
struct ConfidenceHead {
    /// `[hidden + rank]`, or `[hidden]`
    weights: Vec<f32>,
    bias: f32,
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
    let confidence = ConfidenceHead::load(json, &loader, config.hidden, rank)?;
    let backbone = Backbone::load(&config, trained_width, &loader, bound)?;
    checkpoint.finish()?;
    Ok(Box::new(DSpark { spec, backbone, head: bound.head.clone(), markov, confidence }))
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
        let mut judged = match (&self.confidence, job.confidence.as_deref_mut()) {
            (Some(head), Some(out)) => Some((head, y.to_host()?, out)),
            _ => None,
        };
        let mut previous = job.anchor;
        let mut proposals = Vec::with_capacity(job.count);
        for row in 0..job.count {
            let embedded = self.markov.w1.lookup(&[previous])?;
            if let Some((head, y, out)) = &mut judged {
                out.push(head.chance(&y[row * self.spec.hidden..][..self.spec.hidden], &embedded.to_host()?));
            }
            // What the previous token says of the next.
            let mut chained = self.markov.w2.forward(&embedded)?;
            chained.add_assign(&logits.slice_rows(row..row + 1)?)?;
            previous = job.pick.pick(&chained.to_host()?)?;
            proposals.push(previous);
        }
        Ok(proposals)
    }
}

impl ConfidenceHead {
    fn load(json: &Json, loader: &Loader<'_>, hidden: usize, rank: usize) -> Result<Option<Self>> {
        if !json.bool_or("enable_confidence_head", false)? {
            return Ok(None);
        }
        let with_markov = json.bool_or("confidence_head_with_markov", true)?;
        let input = if with_markov { hidden + rank } else { hidden };
        // A table of one row: stored as any matrix may be, codes of few bits included.
        let proj = Embedding::load(loader, "confidence_head.proj", 1, input)?;
        let weights = proj.lookup(&[TokenId(0)])?.to_host()?.into_owned();
        let bias = loader.vector("confidence_head.proj.bias", 1)?[0];
        Ok(Some(Self { weights, bias }))
    }

    /// The chance that the target takes the proposal of a row, from the row `y` `[hidden]` and `W1[previous]` `[rank]`.
    fn chance(&self, y: &[f32], embedded: &[f32]) -> f32 {
        // A head that does not look at the previous token has no weights left for it.
        let inputs = y.iter().chain(embedded);
        let sum: f32 = self.weights.iter().zip(inputs).map(|(weight, input)| weight * input).sum();
        1.0 / (1.0 + (-(sum + self.bias)).exp())
    }
}
