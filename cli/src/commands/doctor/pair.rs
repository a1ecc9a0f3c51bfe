//! The checkpoints, whether they fit, and which widths may run.

use std::sync::Arc;

use anyhow::Context as _;
use mlxcel_core::{
    Width,
    exactness::{Gate, Refusal, Verdict},
    family::{Drafter, Target},
    nn::Executor,
    sampling::Vocabulary,
};

use super::check::Checks;
use crate::{
    args::DoctorArgs,
    commands::inspect::sizes,
    exactness,
    load::{self, Named},
};

/// Models that were loaded, and their widths.
pub(super) struct Examined {
    pub(super) target: Box<dyn Target>,
    pub(super) drafter: Option<Box<dyn Drafter>>,
    pub(super) gate: Gate,
    /// Width 1 and those that may be asked for.
    pub(super) widths: Vec<WidthState>,
}

/// What is known of a width.
pub(super) struct WidthState {
    pub(super) width: Width,
    /// `None` for width 1.
    known: Option<Verdict>,
    /// Why it is not used.
    refusal: Option<Refusal>,
}

impl WidthState {
    pub(super) fn used(&self) -> bool {
        self.refusal.is_none()
    }

    /// The verdict, in words.
    pub(super) fn verdict(&self) -> String {
        self.known.as_ref().map_or_else(|| "classic".to_owned(), ToString::to_string)
    }
}

/// Opens, checks and loads what `args` name; a drafter that does not fit is an error, and the target is examined alone.
pub(super) fn examine(args: &DoctorArgs, executor: Executor, checks: &mut Checks) -> Option<Examined> {
    let models = &args.models;
    let open_target = || load::open_target(models.model.as_deref());
    let target = checks.take("target", open_target(), describe)?;
    let digest = target.checkpoint.digest();
    checks.note("digest", &digest[..16]);
    for note in target.checkpoint.notes() {
        checks.note("note", note.as_str());
    }
    let drafter = load::open_drafter(models).transpose();
    let drafter = drafter.and_then(|opened| checks.take("drafter", opened, describe));
    let finite = |named: &Named| named.checkpoint.check_finite().with_context(|| named.name.clone());
    let all_finite = [Some(&target), drafter.as_ref()].into_iter().flatten().try_for_each(finite);
    checks.take("weights", all_finite, |()| "all numbers are finite".to_owned());
    let kept = exactness::kept(&target.checkpoint, executor);
    let paired = drafter.is_some();
    let name = if paired { "pairing" } else { "loading" };
    let loaded = checks.take(name, target.load(drafter, executor), |(target, drafter)| {
        let spec = target.spec();
        let shape = format!("{} layers, hidden {}, context {}", spec.layers, spec.hidden, spec.context);
        match drafter.as_ref().map(|drafter| drafter.spec()) {
            Some(drafter) => format!(
                "fits: {shape}; taps {:?}, widths up to {}, starts at {}",
                drafter.taps, drafter.trained_width, drafter.default_width
            ),
            None => shape,
        }
    });
    let (target, drafter) = match loaded {
        Some(loaded) => loaded,
        None if paired => open_target().and_then(|target| target.load(None, executor)).ok()?,
        None => return None,
    };
    let vocabulary = Arc::new(Vocabulary::all(target.spec().vocab));
    let gate = args.exactness.gate(target.as_ref(), drafter.as_deref(), &vocabulary, executor, kept, &[]);
    let cost = gate.cost();
    if drafter.is_some() {
        let what = match (cost.time.is_zero(), cost.kept) {
            (true, 0) => "nothing to measure: exact by construction, or --probe off".to_owned(),
            (true, kept) => format!("{kept} widths known from before"),
            (false, _) => format!("probed in {:.2} s", cost.time.as_secs_f64()),
        };
        checks.note("exactness", what);
    }
    let most = drafter.as_ref().map_or(Width::ONE, |drafter| drafter.spec().trained_width);
    let widths = widths(&gate, most);
    Some(Examined { target, drafter, gate, widths })
}

fn describe(named: &Named) -> String {
    let checkpoint = &named.checkpoint;
    let family = crate::commands::inspect::family(checkpoint).unwrap_or_else(|error| error.to_string());
    let (tensors, bytes, dtypes) = sizes(checkpoint);
    format!("{}: {family}; {tensors} tensors ({dtypes}), {:.1} MB", named.name, bytes as f64 / 1e6)
}

/// Width 1, and those whose verdicts reports name, up to `most` rows.
fn widths(gate: &Gate, most: Width) -> Vec<WidthState> {
    let one = WidthState { width: Width::ONE, known: None, refusal: None };
    let state = |verdict: Verdict| WidthState {
        width: verdict.width,
        refusal: gate.check(verdict.width, 0).err(),
        known: Some(verdict),
    };
    std::iter::once(one).chain(gate.listed(most).into_iter().map(state)).collect()
}
