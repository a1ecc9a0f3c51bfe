//! Targets with a defect.

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
    /// The best and the worst logit change places in the last row of blocks of this many rows.
    ChoiceInBlocksOf(usize),
    /// A block of more than one row leaves the state of its first row in place of its second.
    RepeatsFirstRow,
    /// A segment that shares a forward sees the tokens of its neighbour.
    MixesSegments,
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
}

impl PlantedTarget {
    /// `inner`, spoilt; `executor` is the one it runs on.
    pub fn new(inner: Box<dyn Target>, executor: Executor, defect: TargetDefect) -> Self {
        Self { inner, executor, defect }
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

    fn spoil(&self, rows: usize, output: &mut Output) -> Result<()> {
        match self.defect {
            TargetDefect::BitInBlocksOf(n) if n == rows => {
                self.change(output, |row| row[0] = f32::from_bits(row[0].to_bits() ^ 1))
            }
            TargetDefect::ChoiceInBlocksOf(n) if n == rows => self.change(output, |row| {
                let best = crate::argmax(row);
                row[best] = -100.0;
            }),
            _ => Ok(()),
        }
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
            self.spoil(rows, &mut output)?;
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
