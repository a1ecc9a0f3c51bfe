//! With speculation on or off, a request gets the same tokens.

use mlxcel_core::{
    Kept, TokenId, Width,
    sampling::{SamplingSettings, Seed},
    speculative::Models,
    state::SequenceState,
};

use crate::{
    At as _, Check,
    compare::same_bits,
    drive, ensure,
    rounds::{Ask, Run, run},
};

/// A speculative run and the classic one of the same request: tokens, log-probabilities, finish and the bits of the state.
pub fn same_as_classic(models: Models<'_>, ask: &Ask, widths: &[Width]) -> Check {
    let classic = run(models, ask, None).at("classic")?;
    for width in widths {
        let speculative = run(models, ask, Some(*width)).at(format_args!("width {width}"))?;
        same_run(&speculative, &classic).at(format_args!("width {width}"))?;
    }
    Ok(())
}

/// Whether two runs of a request gave the same answer and left the same state.
pub fn same_run(found: &Run, expected: &Run) -> Check {
    let (tokens, reference) = (found.tokens(), expected.tokens());
    let at = tokens.iter().zip(&reference).take_while(|(a, b)| a == b).count();
    ensure!(
        tokens == reference,
        "token {at} is {:?}, classic decoding gives {:?} ({} and {} tokens)",
        tokens.get(at),
        reference.get(at),
        tokens.len(),
        reference.len()
    );
    ensure!(found.decisions == expected.decisions, "the log-probabilities differ from classic decoding");
    ensure!(
        found.finish == expected.finish,
        "ends with {:?}, classic with {:?}",
        found.finish,
        expected.finish
    );
    ensure!(found.text == expected.text, "the text is {:?}, classic gives {:?}", found.text, expected.text);
    same_contents(&found.state, &expected.state)
}

/// Whether two states hold the same bits.
pub fn same_states(found: &SequenceState, expected: &SequenceState) -> Check {
    same_contents(&found.contents()?, &expected.contents()?)
}

fn same_contents(found: &[Vec<f32>], expected: &[Vec<f32>]) -> Check {
    ensure!(found.len() == expected.len(), "{} layers, expected {}", found.len(), expected.len());
    for (layer, (a, b)) in found.iter().zip(expected).enumerate() {
        same_bits(&format!("state of layer {layer}"), a, b)?;
    }
    Ok(())
}

/// The settings that exactness is checked with: greedy, and two temperatures of five seeds each, with top-k, top-p and
/// min-p mixed in.
pub fn settings() -> Vec<SamplingSettings> {
    let greedy = SamplingSettings { temperature: 0.0, logprobs: Some(2), ..SamplingSettings::default() };
    let mut all = vec![greedy];
    for seed in 0..5u64 {
        for temperature in [0.7, 1.3] {
            let seed = Some(Seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
            let mut settings = SamplingSettings { temperature, seed, ..SamplingSettings::default() };
            match all.len() % 5 {
                1 => settings.top_k = 40,
                2 => settings.top_p = 0.9,
                3 => settings.min_p = 0.05,
                4 => (settings.top_k, settings.top_p, settings.min_p) = (50, 0.95, 0.02),
                _ => {}
            }
            all.push(settings);
        }
    }
    all
}

/// A block's logits are those of the same tokens one by one, byte for byte, at every width.
pub fn block_equals_chain(
    models: Models<'_>,
    prompt: &[TokenId],
    tokens: &[TokenId],
    widths: &[Width],
) -> Check {
    let target = models.target;
    let slack = Width::new(tokens.len()).unwrap_or(Width::ONE);
    let mut prefilled = target.new_state(slack);
    drive::prefill(target, &mut prefilled, prompt)?;
    let chain = drive::chain(target, &mut prefilled.fork(), tokens)?;
    let vocab = target.spec().vocab;
    for width in widths {
        let rows = width.rows().min(tokens.len());
        let block = drive::block(target, &mut prefilled.fork(), &tokens[..rows], Kept(0))?;
        same_bits(&format!("logits of a block of {rows}"), &block, &chain[..rows * vocab])?;
    }
    Ok(())
}
