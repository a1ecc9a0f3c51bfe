//! A target that says what it is told, whatever it is asked.

use mlxcel_core::{
    Result, TokenId, Width,
    family::{LogitRows, Output, Segment, Target, TargetSpec},
    nn::{Embedding, Executor, Linear, Tensor},
    state::SequenceState,
};

use super::{Script, ScriptedTarget};
use crate::Failure;

/// How much the wanted token's logit is above the others.
const LEAD: f32 = 8.0;

/// A target whose likeliest tokens, from the end of a prompt on, are those of a text that is given. Its state is that of
/// a [`ScriptedTarget`].
pub struct SpokenTarget {
    inner: ScriptedTarget,
    prompt: usize,
    answer: Vec<TokenId>,
}

impl SpokenTarget {
    /// Says `answer` after a prompt of `prompt` tokens, then its last token over and over; `vocab` ids.
    pub fn new(prompt: usize, answer: &[TokenId], vocab: usize) -> std::result::Result<Self, Failure> {
        let inner = ScriptedTarget::new(Script { seed: 1, vocab, agreement: 0 }, 512)?;
        Ok(Self { inner, prompt, answer: answer.to_vec() })
    }

    /// Logits `[vocab]` of the row at `position`.
    fn row(&self, position: usize) -> Vec<f32> {
        let next = (position + 1).saturating_sub(self.prompt);
        let wanted = self.answer.get(next).or(self.answer.last());
        let vocab = self.spec().vocab;
        // The others differ, so that a second choice is one.
        let mut row: Vec<_> = (0..vocab).map(|id| -(id as f32) / vocab as f32).collect();
        if let Some(wanted) = wanted {
            row[wanted.index()] = LEAD;
        }
        row
    }
}

impl Target for SpokenTarget {
    fn spec(&self) -> &TargetSpec {
        self.inner.spec()
    }

    fn new_state(&self, slack: Width) -> SequenceState {
        self.inner.new_state(slack)
    }

    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
        let starts = segments.iter().map(|segment| segment.state.len()).collect::<Result<Vec<_>, _>>()?;
        let mut outputs = self.inner.forward(segments)?;
        for ((segment, start), output) in segments.iter().zip(starts).zip(&mut outputs) {
            let end = start + segment.tokens.len();
            let first = match segment.want.logits {
                LogitRows::None => continue,
                LogitRows::Last => end - 1,
                LogitRows::All => start,
            };
            let logits: Vec<f32> = (first..end).flat_map(|position| self.row(position)).collect();
            output.logits = Some(Tensor::from_host(&logits, end - first, self.spec().vocab, Executor::Cpu)?);
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
