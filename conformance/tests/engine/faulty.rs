//! Models that fail on one request: the one whose prompt begins with [`POISON`].

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
    mpsc::Receiver,
};

use mlxcel_core::{
    Error, Result, TokenId, Width,
    family::{
        Draft, Drafter, DrafterContext, DrafterSpec, Observe, Output, Proposals, Segment, Target, TargetSpec,
    },
    nn::{Embedding, Executor, Linear, Tensor},
    state::SequenceState,
};

/// First token of the prompt that is failed on.
pub(crate) const POISON: u32 = 7;

/// How a model fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Error,
    Panic,
    /// Logits that are no numbers.
    Nan,
    /// An answer for every job but the last.
    OneShort,
}

fn fail(fault: Fault) -> Result<()> {
    assert!(fault != Fault::Panic, "planted panic");
    Err(Error::Mlx("planted error".to_owned()))
}

/// A target that fails once the poisoned request's state holds `from` rows.
pub(crate) struct FaultyTarget {
    pub(crate) inner: Box<dyn Target>,
    pub(crate) fault: Fault,
    pub(crate) from: usize,
    pub(crate) forwards: Arc<AtomicUsize>,
}

fn is_poisoned(segment: &mut Segment<'_>) -> Result<bool> {
    if segment.state.is_empty() {
        return Ok(segment.tokens.first() == Some(&TokenId(POISON)));
    }
    Ok(segment.state.layer(0)?.contents()?.first() == Some(&(POISON as f32)))
}

impl Target for FaultyTarget {
    fn spec(&self) -> &TargetSpec {
        self.inner.spec()
    }

    fn new_state(&self, slack: Width) -> SequenceState {
        self.inner.new_state(slack)
    }

    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
        self.forwards.fetch_add(1, Ordering::SeqCst);
        let mut poisoned = Vec::new();
        for segment in segments.iter_mut() {
            let due = segment.state.len()? >= self.from;
            poisoned.push(due && is_poisoned(segment)?);
        }
        let struck = poisoned.contains(&true);
        // The forward gets half way first: states are left between rows.
        let mut outputs = self.inner.forward(segments)?;
        if !struck {
            return Ok(outputs);
        }
        match self.fault {
            Fault::Error | Fault::Panic => fail(self.fault)?,
            Fault::OneShort => {
                outputs.pop();
            }
            Fault::Nan => {
                for (output, poisoned) in outputs.iter_mut().zip(poisoned) {
                    if let (true, Some(logits)) = (poisoned, &output.logits) {
                        let (rows, columns) = (logits.rows(), logits.width());
                        let values = vec![f32::NAN; rows * columns];
                        output.logits = Some(Tensor::from_host(&values, rows, columns, Executor::Cpu)?);
                    }
                }
            }
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

/// Where a drafter fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Propose,
    /// Before anything is taken in.
    Observe,
    /// With its own rows taken in, and those before it.
    ObserveLate,
}

/// A drafter that fails once it knows `from` rows of the poisoned request.
pub(crate) struct FaultyDrafter {
    pub(crate) inner: Box<dyn Drafter>,
    pub(crate) fault: Fault,
    pub(crate) place: Place,
    pub(crate) from: usize,
    pub(crate) calls: Arc<AtomicUsize>,
}

fn knows_poison(context: &DrafterContext) -> Result<bool> {
    let first = context.layers.first().filter(|layer| !layer.is_empty());
    Ok(first
        .map(|layer| mlxcel_core::state::LayerState::Kv(layer.clone()).contents())
        .transpose()?
        .is_some_and(|contents| contents.first() == Some(&(POISON as f32))))
}

impl Drafter for FaultyDrafter {
    fn spec(&self) -> &DrafterSpec {
        self.inner.spec()
    }

    fn new_context(&self) -> DrafterContext {
        self.inner.new_context()
    }

    fn observe(&self, jobs: &mut [Observe<'_>]) -> Result<()> {
        for job in jobs.iter_mut() {
            let struck = job.context.len() >= self.from && knows_poison(job.context)?;
            if struck && self.place == Place::Observe {
                self.calls.fetch_add(1, Ordering::SeqCst);
                fail(self.fault)?;
            }
            self.inner.observe(std::slice::from_mut(job))?;
            if struck && self.place == Place::ObserveLate {
                self.calls.fetch_add(1, Ordering::SeqCst);
                fail(self.fault)?;
            }
        }
        Ok(())
    }

    fn propose(&self, jobs: &mut [Draft<'_>]) -> Result<Vec<Proposals>> {
        let mut struck = false;
        for job in jobs.iter() {
            struck |= job.context.len() >= self.from && knows_poison(job.context)?;
        }
        let mut all = self.inner.propose(jobs)?;
        if struck && self.place == Place::Propose {
            self.calls.fetch_add(1, Ordering::SeqCst);
            match self.fault {
                Fault::Error | Fault::Panic => fail(self.fault)?,
                Fault::Nan => {
                    jobs[0].pick.pick(&[f32::NAN; crate::setting::VOCAB])?;
                }
                Fault::OneShort => {
                    all.pop();
                }
            }
        }
        Ok(all)
    }
}

/// A target that forwards when it is told to: each forward takes a token from `steps`, all that come once `steps` has
/// ended.
pub(crate) struct SteppedTarget {
    pub(crate) inner: Box<dyn Target>,
    pub(crate) steps: Mutex<Receiver<()>>,
    /// First tokens of the prompts that were forwarded.
    pub(crate) seen: Arc<Mutex<Vec<u32>>>,
}

impl Target for SteppedTarget {
    fn spec(&self) -> &TargetSpec {
        self.inner.spec()
    }

    fn new_state(&self, slack: Width) -> SequenceState {
        self.inner.new_state(slack)
    }

    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
        let _ = self.steps.lock().unwrap().recv();
        for segment in segments.iter().filter(|segment| segment.state.is_empty()) {
            self.seen.lock().unwrap().push(segment.tokens[0].0);
        }
        self.inner.forward(segments)
    }

    fn embedding(&self) -> Embedding {
        self.inner.embedding()
    }

    fn head(&self) -> Linear {
        self.inner.head()
    }
}
