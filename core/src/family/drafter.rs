//! The drafter: the model that proposes.

use super::TargetSpec;
use crate::{
    Position, Result, TokenId, Width,
    nn::{Embedding, Linear, Tensor},
    state::KvState,
};

/// What the rest of the system needs to know of a drafter.
#[derive(Clone, Debug, PartialEq)]
pub struct DrafterSpec {
    /// Name of its family.
    pub family: &'static str,
    /// Target layers whose residual stream it reads, strictly increasing.
    pub taps: Vec<usize>,
    /// Width of its own residual stream, that of the target.
    pub hidden: usize,
    /// Id that stands for a token to be proposed.
    pub mask_token: TokenId,
    /// The width it was trained for: larger ones are refused.
    pub trained_width: Width,
    /// Rows of its context that a block sees at most; `None` if it sees all of them.
    pub reach: Option<usize>,
    /// The width to start with.
    pub default_width: Width,
}

/// What a drafter borrows from the target it is loaded for.
pub struct Bound<'a> {
    /// The target's description.
    pub spec: &'a TargetSpec,
    /// The target's raw embedding table.
    pub embedding: Embedding,
    /// The target's raw output matrix.
    pub head: Linear,
}

/// What a drafter keeps of one sequence: keys and values of committed rows only, so it never takes anything back.
#[derive(Clone, Debug)]
pub struct DrafterContext {
    /// One a drafter layer.
    pub layers: Vec<KvState>,
}

impl DrafterContext {
    /// Committed rows observed.
    pub fn len(&self) -> usize {
        self.layers.first().map_or(0, KvState::len)
    }

    /// Takes `rows` rows as observed that no later block sees: as many as a block sees follow at once.
    pub(crate) fn skip(&mut self, rows: usize) -> Result<()> {
        self.layers.iter_mut().try_for_each(|layer| layer.skip(rows))
    }

    /// Committed rows observed, if all layers hold the same; `None` after a failure between layers.
    pub fn rows(&self) -> Option<usize> {
        let rows = self.len();
        self.layers.iter().all(|layer| layer.len() == rows).then_some(rows)
    }

    /// Bytes that it takes once `rows` rows were observed, by estimate.
    pub fn bytes(&self, rows: usize) -> usize {
        self.layers.iter().map(|layer| layer.bytes(rows)).sum()
    }

    /// Whether nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Committed rows of one sequence, for a drafter to take in.
pub struct Observe<'a> {
    /// The sequence's context.
    pub context: &'a mut DrafterContext,
    /// The drafter's taps of those rows, `[rows, taps · hidden]`.
    pub taps: &'a Tensor,
    /// Position of the first row: the rows observed before.
    pub start: Position,
}

/// One sequence's proposals, to be made.
pub struct Draft<'a> {
    /// The sequence's context, holding all committed rows.
    pub context: &'a mut DrafterContext,
    /// The newest emitted token.
    pub anchor: TokenId,
    /// Its position: the committed length.
    pub position: Position,
    /// Tokens to propose.
    pub count: usize,
    /// The request's own way to pick a token from logits.
    pub pick: &'a mut dyn Pick,
    /// Where the drafter says how sure it is, if somebody asks.
    pub confidence: Option<&'a mut Confidence>,
}

/// How sure a drafter is of its proposals: for each of them, in order, the chance (0 to 1) that the target takes it if it
/// took all before it. Empty from drafters that do not know. Tokens do not depend on it, only how many of them are checked.
pub type Confidence = Vec<f32>;

/// Picks proposals one after the other, by the request's own sampler and noise.
pub trait Pick {
    /// The next proposal from the drafter's logits `[vocab]` for it.
    fn pick(&mut self, logits: &[f32]) -> Result<TokenId>;
}

/// Proposed tokens, the first at the position after the anchor.
pub type Proposals = Vec<TokenId>;

/// A model that proposes. One thread owns it.
pub trait Drafter: Send {
    /// Its description.
    fn spec(&self) -> &DrafterSpec;

    /// The context of a sequence of which nothing was observed.
    fn new_context(&self) -> DrafterContext;

    /// Takes committed rows into their contexts.
    fn observe(&self, jobs: &mut [Observe<'_>]) -> Result<()>;

    /// Proposes `count` tokens a job, ids of the target's vocabulary.
    fn propose(&self, jobs: &mut [Draft<'_>]) -> Result<Vec<Proposals>>;
}
