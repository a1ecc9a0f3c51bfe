//! A drafter's logits and proposals against references.

use mlxcel_core::{
    Position, Result, TokenId,
    family::{Draft, Drafter, Observe, Pick},
    nn::{Executor, Tensor},
};

use super::{Golden, Precision, fixture::Expected};
use crate::{
    At as _, Check,
    compare::{argmax, close},
    ensure, load,
};

/// Successive drafts of the case `golden`, bound to the target case it was made with: logits along the greedy chain, and
/// in f32 the drafter's own greedy choices.
pub fn drafter(golden: &Golden, target: &Golden, precision: Precision) -> Check {
    let target = load::target(target.checkpoint()?)?;
    drafter_on(load::drafter(golden.checkpoint()?, target.as_ref())?.as_ref(), golden, precision)
}

/// [`drafter`] on a drafter that is loaded.
pub fn drafter_on(drafter: &dyn Drafter, golden: &Golden, precision: Precision) -> Check {
    let expected = golden.expected()?;
    for prompt in ["short", "long"] {
        drafts(drafter, &expected, prompt, precision).at(format_args!("{}/{prompt}", golden.name()))?;
    }
    Ok(())
}

fn drafts(drafter: &dyn Drafter, expected: &Expected<'_>, prompt: &str, precision: Precision) -> Check {
    let tolerance = match precision {
        Precision::F32 => 1e-3,
        Precision::Bf16 => 0.4,
    };
    let tokens = expected.tokens(&format!("{prompt}/tokens"))?;
    let features = expected.f32(&format!("{prompt}/features"))?;
    let width = drafter.spec().taps.len() * drafter.spec().hidden;
    let mut context = drafter.new_context();
    let steps = expected.counts(&format!("{prompt}/steps"))?;
    let (steps, _) = steps.as_chunks::<2>();
    for (step, &[start, end]) in steps.iter().enumerate() {
        let key = |name: &str| format!("{prompt}/step{step}/{name}");
        let rows = &features[start * width..end * width];
        let taps = Tensor::from_host(rows, end - start, width, Executor::detect()?)?;
        drafter.observe(&mut [Observe { context: &mut context, taps: &taps, start: Position(start) }])?;
        ensure!(context.len() == end, "step {step}: context of {} rows, expected {end}", context.len());

        let chain = expected.tokens(&key("proposals"))?;
        let mut pick = Forced { chain: &chain, logits: Vec::new(), greedy: Vec::new() };
        let (anchor, position) = (tokens[end], Position(end));
        let job = Draft { context: &mut context, anchor, position, count: chain.len(), pick: &mut pick };
        let made = drafter.propose(&mut [job])?;
        ensure!(made == [chain.clone()], "step {step}: {made:?} is not what was picked, {chain:?}");
        ensure!(context.len() == end, "step {step}: the draft left {} rows, expected {end}", context.len());

        let chained = key("chained_logits");
        let logits = expected.f32(&if expected.has(&chained) { chained } else { key("logits") })?;
        close(&format!("step {step}"), &pick.logits, &logits, tolerance)?;
        if precision == Precision::F32 {
            let greedy = &pick.greedy;
            ensure!(*greedy == chain, "step {step}: proposals {greedy:?}, expected {chain:?}");
        }
    }
    Ok(())
}

/// Picks the reference's chain, and remembers the logits and what it would have picked.
struct Forced<'a> {
    chain: &'a [TokenId],
    logits: Vec<f32>,
    greedy: Vec<TokenId>,
}

impl Pick for Forced<'_> {
    fn pick(&mut self, logits: &[f32]) -> Result<TokenId> {
        self.logits.extend_from_slice(logits);
        self.greedy.push(TokenId(argmax(logits) as u32));
        let next = self.greedy.len() - 1;
        self.chain.get(next).copied().ok_or(mlxcel_core::Error::Shape {
            what: "picked tokens",
            found: next + 1,
            expected: self.chain.len(),
        })
    }
}
