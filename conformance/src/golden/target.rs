//! A target's logits against references.

use mlxcel_core::{
    TokenId, Width,
    family::{LogitRows, Target, Want},
    nn::Tensor,
};

use super::{Golden, fixture::Expected};
use crate::{
    At as _, Check, Failure,
    compare::{argmax, close, mean_abs},
    drive, ensure, load,
};

const PROMPTS: [&str; 3] = ["one", "short", "long"];
/// Measured between references: 4e-4 at most.
const F32: f32 = 1e-3;

/// f32 weights on an f32 executor: logits within 1e-3 in one forward, in chunks and row by row; taps within 1e-3; all
/// 64 greedy tokens.
pub fn exact(golden: &Golden) -> Check {
    exact_on(load::target(golden.checkpoint()?)?.as_ref(), golden)
}

/// [`exact`] on a target that is loaded.
pub fn exact_on(target: &dyn Target, golden: &Golden) -> Check {
    let expected = golden.expected()?;
    for prompt in PROMPTS {
        exact_prompt(target, &expected, prompt).at(format_args!("{}/{prompt}", golden.name()))?;
    }
    Ok(())
}

fn exact_prompt(target: &dyn Target, expected: &Expected<'_>, name: &str) -> Check {
    let prompt = expected.tokens(&format!("{name}/prompt"))?;
    let greedy = expected.tokens(&format!("{name}/greedy"))?;
    let tokens = [prompt.as_slice(), &greedy].concat();
    let logits = expected.f32(&format!("{name}/logits"))?;

    let taps = expected.taps()?;
    let mut state = target.new_state(Width::ONE);
    let output = drive::forward(target, &mut state, &tokens, Want { logits: LogitRows::All, taps: &taps })?;
    close("one forward", &drive::logits_of(&output, tokens.len())?, &logits, F32)?;
    let found = output.taps.ok_or_else(|| Failure::Broken("no taps came back".to_owned()))?;
    close("taps", &layer_by_layer(&found, taps.len())?, &expected.f32(&format!("{name}/taps"))?, F32)?;

    let mut state = target.new_state(Width::ONE);
    let mut chunked = Vec::new();
    for chunk in chunks(&tokens) {
        chunked.extend(drive::all_logits(target, &mut state, chunk)?);
    }
    close("prefill in chunks", &chunked, &logits, F32)?;

    let mut state = target.new_state(Width::ONE);
    let vocab = target.spec().vocab;
    let mut row = drive::all_logits(target, &mut state, &prompt)?.split_off((prompt.len() - 1) * vocab);
    for (i, token) in greedy.iter().enumerate() {
        let at = prompt.len() - 1 + i;
        close(&format!("decoded row {at}"), &row, &logits[at * vocab..][..vocab], F32)?;
        let found = argmax(&row);
        ensure!(found == token.index(), "greedy token {i} is {found}, expected {token}");
        row = drive::chain(target, &mut state, &[*token])?;
    }
    Ok(())
}

/// 5, 7 and the remaining rows, as the references' cached runs.
fn chunks(tokens: &[TokenId]) -> impl Iterator<Item = &[TokenId]> {
    let (first, rest) = tokens.split_at(tokens.len().min(5));
    let (second, third) = rest.split_at(rest.len().min(7));
    [first, second, third].into_iter().filter(|chunk| !chunk.is_empty())
}

/// `[rows, taps · hidden]` as `[taps, rows, hidden]`.
fn layer_by_layer(taps: &Tensor, count: usize) -> Result<Vec<f32>, Failure> {
    let (width, values) = (taps.width() / count, taps.to_host()?);
    let rows = || values.chunks_exact(taps.width());
    Ok((0..count).flat_map(|tap| rows().flat_map(move |row| &row[tap * width..][..width])).copied().collect())
}

/// Weights of low precision: teacher-forced logits no further from the f32 truth than 1.5 times the worse of two
/// references, and argmax agreement not more than 3 points below the worse one.
pub fn within_reference(golden: &Golden) -> Check {
    within_reference_on(load::target(golden.checkpoint()?)?.as_ref(), golden)
}

/// [`within_reference`] on a target that is loaded.
pub fn within_reference_on(target: &dyn Target, golden: &Golden) -> Check {
    let expected = golden.expected()?;
    for name in PROMPTS {
        let place = format!("{}/{name}", golden.name());
        let tokens = if expected.has(&format!("{name}/tokens")) {
            expected.tokens(&format!("{name}/tokens"))?
        } else {
            [expected.tokens(&format!("{name}/prompt"))?, expected.tokens(&format!("{name}/greedy"))?]
                .concat()
        };
        let truth = expected.f32(&format!("{name}/logits_f32"))?;
        let reference = expected.f32(&format!("{name}/reference"))?;
        let (mean, agreement) = (f64::from(reference[0]), f64::from(reference[1]));

        let mut state = target.new_state(Width::ONE);
        let found = drive::all_logits(target, &mut state, &tokens).at(&place)?;
        ensure!(found.len() == truth.len(), "{place}: {} logits, expected {}", found.len(), truth.len());
        let error = mean_abs(&found, &truth);
        ensure!(error <= 1.5 * mean, "{place}: mean abs error {error}, the worse reference has {mean}");
        let vocab = target.spec().vocab;
        let rows = found.chunks_exact(vocab).zip(truth.chunks_exact(vocab));
        let agreed = rows.filter(|(a, b)| argmax(a) == argmax(b)).count() as f64 / tokens.len() as f64;
        ensure!(
            agreed >= agreement - 0.03,
            "{place}: argmax agrees in {agreed} of the rows, the worse reference in {agreement}"
        );
    }
    Ok(())
}
