//! The exactness gate, as the command line asks for it.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use mlxcel_core::{
    Width,
    checkpoint::Checkpoint,
    exactness::{Gate, Key, Probe, Setup, Store},
    family::{Drafter, Target},
    nn::Executor,
    sampling::Vocabulary,
};

/// Which widths may run: those whose blocks give, byte for byte, what their tokens give one by one.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Exactness")]
pub(crate) struct ExactnessArgs {
    /// How much is measured of whether blocks give the tokens of classic decoding.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) probe: ProbeLevel,

    /// Use widths that were seen to differ, or of which nothing is known: the tokens may not be those of classic decoding,
    /// and every answer says so.
    #[arg(long)]
    pub(crate) allow_inexact: bool,
}

/// How much is probed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProbeLevel {
    /// Nothing: only widths run that are exact by construction, or were probed before.
    Off,
    /// What is neither exact by construction nor known from before.
    #[default]
    Fast,
    /// Everything, at every width, in more places and behind longer prompts.
    Full,
}

impl From<ProbeLevel> for Probe {
    fn from(level: ProbeLevel) -> Self {
        match level {
            ProbeLevel::Off => Self::Off,
            ProbeLevel::Fast => Self::Fast,
            ProbeLevel::Full => Self::Full,
        }
    }
}

/// Where verdicts of a checkpoint on `executor` are kept, and under which key. Those by construction are not.
pub(crate) fn kept(checkpoint: &Checkpoint, executor: Executor) -> Option<(Key, Store)> {
    if executor.is_row_exact() {
        return None;
    }
    Some((Key::current(executor, checkpoint.digest()), Store::user()?))
}

impl ExactnessArgs {
    /// The gate of a pair that runs on `executor`; `widths` are those that were asked for by number.
    pub(crate) fn gate(
        &self,
        target: &dyn Target,
        drafter: Option<&dyn Drafter>,
        vocabulary: &Arc<Vocabulary>,
        executor: Executor,
        kept: Option<(Key, Store)>,
        widths: &[Width],
    ) -> Gate {
        let Some(drafter) = drafter else { return Gate::unguarded().clone() };
        let (probe, spec) = (self.probe.into(), drafter.spec());
        let also = [widths, &[spec.default_width]].concat();
        let widths = Setup::widths(executor, probe, spec.trained_width, &also);
        let setup = Setup::new(executor, Arc::clone(vocabulary), widths);
        Gate::open(target, Setup { probe, allow_inexact: self.allow_inexact, kept, ..setup })
    }
}

/// What a gate found, in a line; `None` if nothing was probed.
pub(crate) fn note(gate: &Gate) -> Option<String> {
    let cost = gate.cost();
    if cost.time.is_zero() && cost.kept == 0 {
        return None;
    }
    let exact: Vec<_> = gate.verdicts().into_iter().filter(|verdict| verdict.check(0).is_ok()).collect();
    let widths: Vec<_> = exact.iter().map(|verdict| verdict.width.to_string()).collect();
    let widths = if widths.is_empty() { "none".to_owned() } else { widths.join(", ") };
    let from = if cost.time.is_zero() {
        "known from before".to_owned()
    } else {
        format!("probed in {:.2} s", cost.time.as_secs_f64())
    };
    Some(format!("widths with the tokens of classic decoding: {widths} ({from})"))
}
