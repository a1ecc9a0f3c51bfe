//! What a round costs by width: drafting, and one forward over the block.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mlxcel_core::{
    Kept, Position, TokenId, Width,
    family::{Draft, Drafter, DrafterContext, LogitRows, Observe, Segment, Target, Want},
    nn::Tensor,
    state::SequenceState,
};

use crate::{
    args::DoctorArgs,
    commands::{
        bench::{Samples, tokens},
        greedy::Greedy,
    },
};

/// The drafter with what it knows of the prompt, if there is one.
type Drafting<'a> = Option<(&'a dyn Drafter, DrafterContext)>;

/// Costs of all widths behind one context.
pub(super) struct Costs {
    /// Rows of the context.
    pub(super) context: usize,
    widths: Vec<Cost>,
}

/// Times of one width.
pub(super) struct Cost {
    width: Width,
    /// The target's forward, logits on the host.
    pub(super) verify: Samples,
    /// The drafter's proposals for it.
    pub(super) draft: Samples,
}

impl Costs {
    pub(super) fn of(&self, width: Width) -> Option<&Cost> {
        self.widths.iter().find(|cost| cost.width == width)
    }

    /// A round of this width, in forwards of one row: as many tokens must come out of it before it gains anything.
    pub(super) fn steps(&self, width: Width) -> Option<f64> {
        let one = self.of(Width::ONE)?.verify.median();
        let cost = self.of(width)?;
        Some((cost.verify.median() + cost.draft.median()) / one)
    }
}

/// Measures all `widths` in turn, `args.repeat` times, after a turn that is not counted.
///
/// # Errors
/// Logits of either model from which no request could be decided, besides what fails in a forward.
pub(super) fn measure(
    target: &dyn Target,
    drafter: Option<&dyn Drafter>,
    widths: &[Width],
    args: &DoctorArgs,
) -> Result<Costs> {
    let widest = widths.iter().copied().max().unwrap_or(Width::ONE);
    let rows = args.context.min(target.spec().context.saturating_sub(widest.rows()));
    ensure!(rows > 0, "the context of this model has no room for a block of {widest} rows");
    let prompt = tokens(target, rows);
    let taps = drafter.map(|drafter| drafter.spec().taps.clone()).unwrap_or_default();
    let mut state = target.new_state(widest);
    let mut context = drafter.map(|drafter| (drafter, drafter.new_context()));
    prefill(target, &mut state, &prompt, &taps, &mut context)?;
    let mut costs: Vec<_> = widths
        .iter()
        .map(|&width| Cost { width, verify: Samples::default(), draft: Samples::default() })
        .collect();
    for turn in 0..=args.repeat {
        for cost in &mut costs {
            let start = Instant::now();
            let vocab = target.spec().vocab;
            let block =
                draft(&mut context, prompt[0], rows, cost.width, vocab).context("the drafter fails")?;
            let drafted = start.elapsed();
            let start = Instant::now();
            let logits = verify(target, &mut state, &block, &taps, cost.width)?;
            if turn > 0 {
                cost.verify.push(start.elapsed());
                cost.draft.push(if cost.width == Width::ONE { Duration::ZERO } else { drafted });
            } else {
                let vocab = target.spec().vocab;
                Greedy::new(vocab, Position(rows + 1))?.check(&logits, vocab).context("the target fails")?;
            }
        }
    }
    Ok(Costs { context: rows, widths: costs })
}

fn prefill(
    target: &dyn Target,
    state: &mut SequenceState,
    prompt: &[TokenId],
    taps: &[usize],
    context: &mut Drafting<'_>,
) -> Result<()> {
    for chunk in prompt.chunks(512) {
        let start = Position(state.len()?);
        let want = Want { logits: LogitRows::None, taps };
        let outputs = target.forward(&mut [Segment { tokens: chunk, state: &mut *state, want }])?;
        state.eval()?;
        let taps = outputs.first().and_then(|output| output.taps.as_ref());
        if let (Some((drafter, context)), Some(taps)) = (context.as_mut(), taps) {
            drafter.observe(&mut [Observe { context, taps, start }])?;
        }
    }
    Ok(())
}

/// The anchor and its proposals; width 1 asks for none.
fn draft(
    context: &mut Drafting<'_>,
    anchor: TokenId,
    rows: usize,
    width: Width,
    vocab: usize,
) -> Result<Vec<TokenId>> {
    let mut block = vec![anchor];
    if let Some((drafter, context)) = context.as_mut()
        && width > Width::ONE
    {
        let (position, count) = (Position(rows), width.proposals());
        let mut pick = Greedy::new(vocab, position.plus(1))?;
        let job = Draft { context, anchor, position, count, pick: &mut pick, confidence: None };
        block.extend(drafter.propose(&mut [job])?.pop().unwrap_or_default());
    }
    // A drafter that proposes less than asked for leaves the block's cost to be measured all the same.
    block.resize(width.rows(), anchor);
    Ok(block)
}

/// The logits of a block's rows, which leave the state again.
fn verify(
    target: &dyn Target,
    state: &mut SequenceState,
    block: &[TokenId],
    taps: &[usize],
    width: Width,
) -> Result<Vec<f32>> {
    state.begin(width)?;
    let want = Want { logits: LogitRows::All, taps };
    let outputs = target.forward(&mut [Segment { tokens: block, state: &mut *state, want }])?;
    let mut rows = Vec::new();
    for output in &outputs {
        if let Some(logits) = &output.logits {
            rows.extend_from_slice(&logits.to_host()?);
        }
        output.taps.iter().try_for_each(Tensor::eval)?;
    }
    state.commit(Kept(0))?;
    Ok(rows)
}
