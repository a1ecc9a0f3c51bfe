//! The segments of one forward, as rows.

use std::ops::Range;

use super::Tensor;
use crate::{
    Error, Result, TokenId,
    family::{Output, Segment, TargetSpec},
    state::LayerState,
};

/// One segment's rows among all rows of a forward, and its state of one layer.
pub struct Span<'a> {
    /// Rows of the concatenated activations.
    pub rows: Range<usize>,
    /// The segment's state of the layer at hand.
    pub state: &'a mut LayerState,
}

/// The segments of a forward: their concatenated tokens, the rows of each, and the taps collected on the way.
pub struct Batch<'s, 'a> {
    segments: &'s mut [Segment<'a>],
    rows: Vec<Range<usize>>,
    tokens: Vec<TokenId>,
    /// Per segment and wanted tap, in the order wanted; `None` until its layer has run.
    taps: Vec<Vec<Option<Tensor>>>,
}

impl<'s, 'a> Batch<'s, 'a> {
    /// Checks the segments against the target: one only where the family takes no more, ids in the vocabulary, layers of the state, room in the context.
    pub fn new(segments: &'s mut [Segment<'a>], spec: &TargetSpec) -> Result<Self> {
        if segments.len() > 1 && !spec.supports_batched {
            return Err(Error::shape("segments for a family that takes one", segments.len(), 1));
        }
        let mut rows = Vec::with_capacity(segments.len());
        let mut tokens = Vec::new();
        for segment in segments.iter() {
            if segment.tokens.is_empty() {
                return Err(Error::EmptySegment);
            }
            if let Some(token) = segment.tokens.iter().find(|token| token.index() >= spec.vocab) {
                return Err(Error::TokenOutOfRange { token: *token, vocab: spec.vocab });
            }
            if segment.state.layers() != spec.layers {
                return Err(Error::shape("layers of the state", segment.state.layers(), spec.layers));
            }
            let end = segment.state.len()? + segment.tokens.len();
            if end > spec.context {
                return Err(Error::ContextFull { needed: end, context: spec.context });
            }
            let start = tokens.len();
            tokens.extend_from_slice(segment.tokens);
            rows.push(start..tokens.len());
        }
        let taps = segments.iter().map(|segment| vec![None; segment.want.taps.len()]).collect();
        Ok(Self { segments, rows, tokens, taps })
    }

    /// All tokens, segment after segment.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// The segments' rows and their states of `layer`.
    pub fn spans(&mut self, layer: usize) -> Result<Vec<Span<'_>>> {
        self.segments
            .iter_mut()
            .zip(&self.rows)
            .map(|(segment, rows)| Ok(Span { rows: rows.clone(), state: segment.state.layer(layer)? }))
            .collect()
    }

    /// Takes the residual stream after `layer` for the segments that want it (spec 0.6).
    pub fn tap(&mut self, layer: usize, h: &Tensor) -> Result<()> {
        for ((segment, rows), taps) in self.segments.iter().zip(&self.rows).zip(&mut self.taps) {
            for (wanted, tap) in segment.want.taps.iter().zip(taps) {
                if *wanted == layer {
                    *tap = Some(h.slice_rows(rows.clone())?);
                }
            }
        }
        Ok(())
    }

    /// The rows whose logits are wanted, segment after segment; `None` if there are none.
    pub fn wanted(&self, h: &Tensor) -> Result<Option<Tensor>> {
        let mut parts = Vec::new();
        for (segment, rows) in self.segments.iter().zip(&self.rows) {
            let count = segment.want.logits.count(rows.len());
            if count > 0 {
                parts.push(h.slice_rows(rows.end - count..rows.end)?);
            }
        }
        if parts.is_empty() { Ok(None) } else { Tensor::concat_rows(&parts).map(Some) }
    }

    /// Hands each segment its logits and taps. `logits` are those of [`Self::wanted`].
    pub fn outputs(self, logits: Option<&Tensor>) -> Result<Vec<Output>> {
        let mut next = 0;
        let mut outputs = Vec::with_capacity(self.rows.len());
        for ((segment, rows), taps) in self.segments.iter().zip(&self.rows).zip(self.taps) {
            let taps: Vec<_> = taps.into_iter().flatten().collect();
            if taps.len() != segment.want.taps.len() {
                return Err(Error::MissingTaps { found: taps.len(), expected: segment.want.taps.len() });
            }
            let count = segment.want.logits.count(rows.len());
            let logits = match logits {
                Some(logits) if count > 0 => Some(logits.slice_rows(next..next + count)?),
                _ => None,
            };
            next += count;
            let taps = if taps.is_empty() { None } else { Some(Tensor::concat_features(&taps)?) };
            outputs.push(Output { logits, taps });
        }
        Ok(outputs)
    }
}
