//! Drafters with a defect.

use mlxcel_core::{
    Error, Position, Result, TokenId,
    family::{Draft, Drafter, DrafterContext, DrafterSpec, Observe, Proposals},
};

/// What is wrong with a drafter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrafterDefect {
    /// The first proposal is outside the vocabulary.
    OutOfRange,
    /// The first two proposals change places.
    Swaps,
    /// One proposal more than was asked for.
    OneTooMany,
    /// Of several rows it takes in the first only, twice.
    ForgetsRows,
    /// The block starts one position late.
    LatePosition,
    /// Everything it was handed is taken in twice.
    ObservesTwice,
    /// It reads every layer below the one that it was trained on.
    TapsOneEarly,
    /// It cannot propose.
    CannotPropose,
    /// It cannot take rows in.
    CannotObserve,
}

/// A drafter with a defect.
pub struct PlantedDrafter {
    inner: Box<dyn Drafter>,
    spec: DrafterSpec,
    defect: DrafterDefect,
    vocab: usize,
}

impl PlantedDrafter {
    /// `inner`, spoilt; `vocab` is the number of ids.
    pub fn new(inner: Box<dyn Drafter>, vocab: usize, defect: DrafterDefect) -> Self {
        let mut spec = inner.spec().clone();
        if defect == DrafterDefect::TapsOneEarly {
            spec.taps.iter_mut().for_each(|layer| *layer -= 1);
        }
        Self { inner, spec, defect, vocab }
    }
}

impl Drafter for PlantedDrafter {
    fn spec(&self) -> &DrafterSpec {
        &self.spec
    }

    fn new_context(&self) -> DrafterContext {
        self.inner.new_context()
    }

    fn observe(&self, jobs: &mut [Observe<'_>]) -> Result<()> {
        for job in jobs {
            let rows = job.taps.rows();
            let first = job.taps.slice_rows(0..1)?;
            let Observe { context, taps, start } = job;
            match self.defect {
                DrafterDefect::ForgetsRows => {
                    for row in 0..rows {
                        let (context, start) = (&mut **context, Position(start.0 + row));
                        self.inner.observe(&mut [Observe { context, taps: &first, start }])?;
                    }
                }
                DrafterDefect::ObservesTwice => {
                    let start = *start;
                    self.inner.observe(&mut [Observe { context, taps, start }])?;
                    let start = start.plus(rows);
                    self.inner.observe(&mut [Observe { context, taps, start }])?;
                }
                DrafterDefect::CannotObserve => return Err(Error::EmptySegment),
                _ => {
                    self.inner.observe(&mut [Observe { context, taps, start: *start }])?;
                }
            }
        }
        Ok(())
    }

    fn propose(&self, jobs: &mut [Draft<'_>]) -> Result<Vec<Proposals>> {
        if self.defect == DrafterDefect::LatePosition {
            for job in jobs.iter_mut() {
                job.position = job.position.plus(1);
            }
        }
        if self.defect == DrafterDefect::CannotPropose {
            return Err(Error::EmptySegment);
        }
        let mut made = self.inner.propose(jobs)?;
        let Some(first) = made.first_mut() else {
            return Err(Error::Shape { what: "lists of proposals", found: 0, expected: jobs.len() });
        };
        match self.defect {
            DrafterDefect::OutOfRange => first[0] = TokenId(self.vocab as u32),
            DrafterDefect::Swaps if first.len() > 1 => first.swap(0, 1),
            DrafterDefect::OneTooMany => first.push(TokenId(0)),
            _ => {}
        }
        Ok(made)
    }
}
