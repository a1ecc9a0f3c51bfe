//! Drives a target by hand: prefill, chains of single rows, blocks.

use mlxcel_core::{
    Error, Kept, Result, TokenId, Width,
    family::{LogitRows, Output, Segment, Target, Want},
    state::SequenceState,
};

/// One forward over one segment.
pub fn forward(
    target: &dyn Target,
    state: &mut SequenceState,
    tokens: &[TokenId],
    want: Want<'_>,
) -> Result<Output> {
    let mut outputs = target.forward(&mut [Segment { tokens, state, want }])?;
    match outputs.pop() {
        Some(output) if outputs.is_empty() => Ok(output),
        _ => Err(Error::Shape { what: "outputs of a forward", found: outputs.len(), expected: 1 }),
    }
}

/// Logits of all rows, `[tokens, vocab]`, of rows that are appended for good (prefill).
pub fn all_logits(target: &dyn Target, state: &mut SequenceState, tokens: &[TokenId]) -> Result<Vec<f32>> {
    let output = forward(target, state, tokens, Want { logits: LogitRows::All, taps: &[] })?;
    logits_of(&output, tokens.len())
}

/// Appends a prompt without looking at its logits.
pub fn prefill(target: &dyn Target, state: &mut SequenceState, tokens: &[TokenId]) -> Result<()> {
    forward(target, state, tokens, Want { logits: LogitRows::None, taps: &[] })?;
    state.eval()
}

/// Opens a block over `tokens`, and gives the logits of all its rows; the block stays open.
pub fn open_block(target: &dyn Target, state: &mut SequenceState, tokens: &[TokenId]) -> Result<Vec<f32>> {
    let width = Width::new(tokens.len()).ok_or(Error::EmptySegment)?;
    state.begin(width)?;
    all_logits(target, state, tokens)
}

/// A block of which `kept` rows stay; the logits of all its rows.
pub fn block(
    target: &dyn Target,
    state: &mut SequenceState,
    tokens: &[TokenId],
    kept: Kept,
) -> Result<Vec<f32>> {
    let logits = open_block(target, state, tokens)?;
    state.commit(kept)?;
    state.eval()?;
    Ok(logits)
}

/// The same tokens one by one, each in a block of its own, as classic decoding does; the logits of all rows.
pub fn chain(target: &dyn Target, state: &mut SequenceState, tokens: &[TokenId]) -> Result<Vec<f32>> {
    let rows = tokens.iter().map(|token| block(target, state, &[*token], Kept(1)));
    Ok(rows.collect::<Result<Vec<_>>>()?.concat())
}

/// The logits of an output of `rows` rows.
pub fn logits_of(output: &Output, rows: usize) -> Result<Vec<f32>> {
    match &output.logits {
        Some(logits) if logits.rows() == rows => Ok(logits.to_host()?.into_owned()),
        other => {
            let found = other.as_ref().map_or(0, mlxcel_core::nn::Tensor::rows);
            Err(Error::Shape { what: "rows of logits", found, expected: rows })
        }
    }
}
