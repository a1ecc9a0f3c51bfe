//! The scripted target.

use mlxcel_core::{
    Result, TokenId, Width,
    checkpoint::{Checkpoint, CheckpointWriter},
    family::{Output, Segment, Target, TargetSpec},
    nn::{Attention, Batch, Embedding, Executor, Linear, Loader, ShortConv, Tensor},
    state::{ConvState, KvState, LayerState, SequenceState},
};

use super::Script;
use crate::Failure;

/// Width of the residual stream: the token's id, then zeros.
pub const HIDDEN: usize = 32;
/// Taps of the convolution; its window tells the last tokens.
const KERNEL: usize = 3;
const KV: usize = 0;
const CONV: usize = 1;
const LAYERS: usize = 3;

/// A target whose logits follow a [`Script`] of the history that its own state holds.
pub struct ScriptedTarget {
    spec: TargetSpec,
    script: Script,
    executor: Executor,
    keys: Attention,
    conv: ShortConv,
    embedding: Embedding,
    head: Linear,
}

impl ScriptedTarget {
    /// A target for `script` with room for `context` rows.
    pub fn new(script: Script, context: usize) -> Result<Self, Failure> {
        // Ids spelled in one number need all bits of f32.
        let executor = Executor::Cpu;
        // Each tap moves the id it weighs past those of the others, so that the sum spells the last tokens.
        let kernel: Vec<f32> = (0..HIDDEN * KERNEL).map(|i| [4096.0, 64.0, 1.0][i % KERNEL]).collect();
        let embedding = table(script.vocab, executor)?;
        let spec = TargetSpec {
            family: "scripted",
            layers: LAYERS,
            hidden: HIDDEN,
            vocab: script.vocab,
            context,
            supports_batched: true,
            required_drafter_family: None,
            suppressed: Vec::new(),
        };
        let conv = ShortConv::new(&kernel, None, HIDDEN, executor)?;
        let head = embedding.to_linear()?;
        Ok(Self { spec, script, executor, keys: keys(), conv, embedding, head })
    }
}

/// Keys and values that are the rows themselves, neither normed nor rotated.
pub(super) fn keys() -> Attention {
    let (q_norm, k_norm, rope) = (None, None, None);
    Attention { heads: 1, kv_heads: 1, head_dim: HIDDEN, scale: 1.0, q_norm, k_norm, rope }
}

/// The tokens whose rows a state of [`keys`] holds.
pub(super) fn history(state: &KvState) -> Result<Vec<TokenId>> {
    let contents = state.contents()?;
    Ok(contents.chunks_exact(HIDDEN).take(state.len()).map(|row| TokenId(row[0] as u32)).collect())
}

fn table(vocab: usize, executor: Executor) -> Result<Embedding, Failure> {
    let folder = tempfile::tempdir()?;
    let zeros = vec![0.0; vocab * HIDDEN];
    CheckpointWriter::new()
        .config(serde_json::json!({}))
        .f32("table.weight", &[vocab, HIDDEN], &zeros)
        .write(folder.path())?;
    let checkpoint = Checkpoint::open(folder.path())?;
    Ok(Embedding::load(&Loader::new(&checkpoint, executor), "table", vocab, HIDDEN)?)
}

/// Rows `[id, 0 …]`.
fn rows(tokens: &[TokenId], executor: Executor) -> Result<Tensor> {
    let mut values = vec![0.0; tokens.len() * HIDDEN];
    for (row, token) in values.chunks_exact_mut(HIDDEN).zip(tokens) {
        row[0] = token.0 as f32;
    }
    Tensor::from_host(&values, tokens.len(), HIDDEN, executor)
}

impl Target for ScriptedTarget {
    fn spec(&self) -> &TargetSpec {
        &self.spec
    }

    fn new_state(&self, _slack: Width) -> SequenceState {
        SequenceState::new(vec![
            LayerState::Kv(KvState::new(1, HIDDEN)),
            LayerState::Conv(ConvState::new(KERNEL, HIDDEN)),
            LayerState::Kv(KvState::new(1, HIDDEN)),
        ])
    }

    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
        let mut batch = Batch::new(segments, &self.spec)?;
        let h = rows(batch.tokens(), self.executor)?;
        let total = h.rows();
        batch.tap(KV, &h)?;
        batch.tap(CONV, &h)?;

        let ones = Tensor::from_host(&vec![1.0; total * HIDDEN], total, HIDDEN, self.executor)?;
        let bcx = Tensor::concat_features(&[h.clone(), ones.clone(), ones])?;
        let spelled = self.conv.forward(&bcx, &mut batch.spans(CONV)?)?;
        let spelled = spelled.to_host()?;

        let kv = Tensor::concat_features(&[h.clone(), h])?;
        let mut logits = Vec::with_capacity(total * self.spec.vocab);
        for layer in [KV, LAYERS - 1] {
            logits.clear();
            for span in batch.spans(layer)? {
                let state = span.state.kv()?;
                let start = state.len();
                self.keys.append(&kv.slice_rows(span.rows.clone())?, state)?;
                let history = history(state)?;
                for (i, row) in span.rows.enumerate() {
                    let mut seen = history[..=start + i].to_vec();
                    // What the window spells takes the place of the newest tokens.
                    let code = spelled[row * HIDDEN] as u32;
                    for (back, shift) in [(1, 0), (2, 6), (3, 12)] {
                        if let Some(at) = seen.len().checked_sub(back) {
                            seen[at] = TokenId(code >> shift & 63);
                        }
                    }
                    logits.extend(self.script.target(&seen));
                }
            }
        }
        let logits = Tensor::from_host(&logits, total, self.spec.vocab, self.executor)?;
        let wanted = batch.wanted(&logits)?;
        batch.outputs(wanted.as_ref())
    }

    fn embedding(&self) -> Embedding {
        self.embedding.clone()
    }

    fn head(&self) -> Linear {
        self.head.clone()
    }
}
