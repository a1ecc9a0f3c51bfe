//! Targets with a defect.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

use mlxcel_core::{
    Result, TokenId, Width,
    family::{LogitRows, Output, Segment, Target, TargetSpec, Want},
    nn::{Embedding, Executor, Linear, Tensor},
    state::SequenceState,
};

/// What is wrong with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetDefect {
    /// The last bit of one logit differs in the last row of blocks of this many rows.
    BitInBlocksOf(usize),
    /// The last bit of one logit differs in the last row of blocks of more than one row that begin before this position and
    /// end behind it.
    BitAcross(usize),
    /// The last bit of one logit differs in the last row of blocks of more than one row that begin at this position or
    /// behind it.
    BitFrom(usize),
    /// The best and the worst logit change places in the last row of such blocks.
    ChoiceFrom(usize),
    /// The last bit of one logit differs in the last row of a block that follows one of which a part was taken back.
    BitAfterPartialCommit,
    /// The best and the worst logit change places in the last row of blocks of this many rows.
    ChoiceInBlocksOf(usize),
    /// A block of more than one row leaves the state of its first row in place of its second.
    RepeatsFirstRow,
    /// A segment that shares a forward sees the tokens of its neighbour.
    MixesSegments,
    /// Blocks give no taps.
    NoTaps,
    /// Taps come one layer early.
    EarlyTaps,
    /// The prompt leaves a row too many.
    ExtraPromptRow,
    /// States made for narrow blocks are not empty.
    DirtyNarrowStates,
    /// Rows of one segment of prefill depend on where the chunk begins.
    ForgetsChunks,
}

/// A target with a defect.
pub struct PlantedTarget {
    inner: Box<dyn Target>,
    executor: Executor,
    defect: TargetDefect,
    /// Positions of the last segment's rows.
    last: Mutex<Range<usize>>,
}

impl PlantedTarget {
    /// `inner`, spoilt; `executor` is the one it runs on.
    pub fn new(inner: Box<dyn Target>, executor: Executor, defect: TargetDefect) -> Self {
        Self { inner, executor, defect, last: Mutex::default() }
    }

    /// Changes the last row of an output's logits.
    fn change(&self, output: &mut Output, change: impl FnOnce(&mut [f32])) -> Result<()> {
        let Some(logits) = &output.logits else { return Ok(()) };
        let (rows, width) = (logits.rows(), logits.width());
        let mut values = logits.to_host()?.into_owned();
        change(&mut values[(rows - 1) * width..]);
        output.logits = Some(Tensor::from_host(&values, rows, width, self.executor)?);
        Ok(())
    }

    /// Spoils the output of rows at these positions.
    fn spoil(&self, at: &Range<usize>, output: &mut Output) -> Result<()> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *last, at.clone());
        let block = at.len() > 1;
        let bit = match self.defect {
            TargetDefect::BitInBlocksOf(n) => n == at.len(),
            TargetDefect::BitAcross(edge) => block && at.start < edge && at.end > edge,
            TargetDefect::BitFrom(position) => block && at.start >= position,
            TargetDefect::BitAfterPartialCommit => block && before.start < at.start && at.start < before.end,
            _ => false,
        };
        let choice = match self.defect {
            TargetDefect::ChoiceInBlocksOf(n) => n == at.len(),
            TargetDefect::ChoiceFrom(position) => block && at.start >= position,
            _ => false,
        };
        if bit {
            self.change(output, |row| row[0] = f32::from_bits(row[0].to_bits() ^ 1))?;
        }
        if choice {
            self.change(output, |row| {
                let best = crate::argmax(row);
                row[best] = -100.0;
            })?;
        }
        Ok(())
    }
}

impl Target for PlantedTarget {
    fn spec(&self) -> &TargetSpec {
        self.inner.spec()
    }

    fn new_state(&self, slack: Width) -> SequenceState {
        let mut state = self.inner.new_state(slack);
        if self.defect == TargetDefect::DirtyNarrowStates && slack.rows() < 32 {
            let tokens = [TokenId(0)];
            let mut segments = [Segment { tokens: &tokens, state: &mut state, want: Want::default() }];
            // A state that cannot be written stays clean, and the plant shows itself as not seen.
            drop(self.inner.forward(&mut segments));
        }
        state
    }

    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
        let early: Vec<_> = segments[0].want.taps.iter().map(|tap| tap.saturating_sub(1)).collect();
        let neighbour: Vec<_> = segments[segments.len() - 1].tokens.to_vec();
        let together = segments.len() > 1;
        let mut outputs = Vec::with_capacity(segments.len());
        for segment in segments {
            let rows = segment.tokens.len();
            let start = segment.state.len()?;
            let mut tokens = segment.tokens.to_vec();
            let mut want = segment.want;
            match self.defect {
                TargetDefect::RepeatsFirstRow if rows > 1 && want.logits == LogitRows::All => {
                    tokens[1] = tokens[0];
                }
                TargetDefect::MixesSegments if together => tokens[0] = neighbour[0],
                TargetDefect::ForgetsChunks if rows > 1 && !segment.state.is_empty() => {
                    let layers = segment.state.layers();
                    *segment.state = self.inner.new_state(Width::ONE);
                    debug_assert_eq!(segment.state.layers(), layers);
                }
                TargetDefect::ExtraPromptRow if want.logits == LogitRows::Last => tokens.push(tokens[0]),
                TargetDefect::EarlyTaps => want.taps = &early,
                _ => {}
            }
            let inner = Segment { tokens: &tokens, state: segment.state, want };
            let mut output = self.inner.forward(&mut [inner])?.remove(0);
            if self.defect == TargetDefect::NoTaps && want.logits == LogitRows::All {
                output.taps = None;
            }
            self.spoil(&(start..start + rows), &mut output)?;
            outputs.push(output);
        }
        Ok(outputs)
    }

    fn embedding(&self) -> Embedding {
        self.inner.embedding()
    }

    fn head(&self) -> Linear {
        self.inner.head()
    }
}
