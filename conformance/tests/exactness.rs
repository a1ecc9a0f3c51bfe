//! The exactness gate finds what it is there to find, and a width that it has not passed is never forwarded.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use conformance::{
    plants::{PlantedDecide, PlantedTarget, TargetDefect},
    random,
    rounds::{Ask, Run, run, whole_vocabulary},
    scripted::{Script, ScriptedDrafter, ScriptedTarget},
};
use mlxcel_core::{
    Result, TokenId, Width,
    exactness::{Gate, Key, Place, Probe, Refusal, Setup, Store, What},
    family::{Drafter, DrafterSpec, Output, Segment, Target, TargetSpec},
    nn::{Embedding, Executor, Linear},
    speculative::{Decline, Models, generate},
    state::SequenceState,
};
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;
use mlxcel_muse as _;

const VOCAB: usize = 24;
const TRAINED: usize = 16;
const SCRIPT: Script = Script { seed: 11, vocab: VOCAB, agreement: 80 };

fn width(rows: usize) -> Width {
    Width::new(rows).unwrap()
}

fn widths(rows: &[usize]) -> Vec<Width> {
    rows.iter().copied().map(width).collect()
}

/// A setup that measures: the targets here run on row-exact kernels, which a gate would trust.
fn measured(vocab: usize, rows: &[usize]) -> Setup {
    Setup::new(Executor::MLX_F32, whole_vocabulary(vocab), widths(rows))
}

fn scripted(context: usize) -> Box<dyn Target> {
    Box::new(ScriptedTarget::new(SCRIPT, context).unwrap())
}

fn planted(context: usize, defect: TargetDefect) -> PlantedTarget {
    PlantedTarget::new(scripted(context), Executor::Cpu, defect)
}

/// Widths that a gate over `rows` refuses behind one row, with where they differ.
fn refused(target: &dyn Target, setup: Setup) -> Vec<(usize, Place)> {
    let gate = Gate::open(target, setup);
    let verdicts = gate.verdicts();
    let differing = verdicts.iter().filter_map(|verdict| verdict.difference);
    differing.map(|difference| (difference.width.rows(), difference.place)).collect()
}

#[test]
fn an_exact_target_passes() {
    for probe in [Probe::Fast, Probe::Full] {
        let target = scripted(2000);
        let setup = Setup { probe, ..measured(VOCAB, &[2, 3, 4, 8, 16]) };
        let gate = Gate::open(target.as_ref(), setup);
        assert_eq!(gate.widths(width(16), 600), widths(&[1, 2, 3, 4, 8, 16]), "{:?}", gate.verdicts());
        assert!(gate.verdicts().iter().all(|verdict| verdict.basis() == "probed"));
    }
}

#[test]
fn a_bit_at_one_width_is_found_there_alone() {
    for rows in [3, 16] {
        let target = planted(2000, TargetDefect::BitInBlocksOf(rows));
        let found = refused(&target, measured(VOCAB, &[2, 3, 4, 8, 16]));
        assert_eq!(found, [(rows, Place::Fresh)]);
        let gate = Gate::open(&target, measured(VOCAB, &[2, 3, 4, 8, 16]));
        let Err(Refusal::Differs(difference)) = gate.check(width(rows), 5) else {
            panic!("width {rows} passed")
        };
        let of = rows * VOCAB * size_of::<f32>();
        assert_eq!(difference.what, What::LogitBytes { differing: 1, of });
        assert_eq!(
            Refusal::Differs(difference).to_string(),
            format!("width {rows} differs in 1 of {of} logit bytes")
        );
    }
}

#[test]
fn a_bit_across_a_window_edge_is_found() {
    let pair = random::muse::pairs()[2].load().unwrap();
    let window = pair.target.new_state(Width::ONE).windows()[0];
    let vocab = pair.target.spec().vocab;
    assert_eq!(refused(pair.target.as_ref(), measured(vocab, &[2, 4])), []);
    let target = PlantedTarget::new(pair.target, Executor::Cpu, TargetDefect::BitAcross(window));
    // Narrow enough to miss the edge from a fresh state.
    assert_eq!(refused(&target, measured(vocab, &[2, 4])), [(2, Place::WindowEdge), (4, Place::WindowEdge)]);
}

#[test]
fn a_bit_after_a_partial_commit_is_found() {
    let target = planted(2000, TargetDefect::BitAfterPartialCommit);
    let found = refused(&target, measured(VOCAB, &[2, 3, 8]));
    assert_eq!(found, [2, 3, 8].map(|rows| (rows, Place::PartialCommit)));
}

#[test]
fn a_bit_behind_a_long_prefix_is_found() {
    let target = planted(2000, TargetDefect::BitFrom(500));
    let found = refused(&target, measured(VOCAB, &[2, 8]));
    assert_eq!(found, [2, 8].map(|rows| (rows, Place::LongPrefix)));
}

#[test]
fn decisions_that_differ_are_found() {
    let setup = Setup { decide: Box::new(PlantedDecide(8)), ..measured(VOCAB, &[2, 4, 8]) };
    let gate = Gate::open(scripted(2000).as_ref(), setup);
    assert_eq!(gate.widths(width(8), 0), widths(&[1, 2, 4]));
    let refusal = gate.check(width(8), 0).unwrap_err();
    assert_eq!(refusal.to_string(), "width 8 differs in 2 of 16 decisions");
}

#[test]
fn kernels_that_are_exact_by_construction_are_measured_on_request_only() {
    let target = planted(2000, TargetDefect::BitInBlocksOf(3));
    let setup = |probe| Setup { executor: Executor::Cpu, probe, ..measured(VOCAB, &[2, 3]) };
    for probe in [Probe::Off, Probe::Fast] {
        let gate = Gate::open(&target, setup(probe));
        assert_eq!(gate.widths(width(3), 1999), widths(&[1, 2, 3]));
        assert!(gate.verdicts().iter().all(|verdict| verdict.basis() == "by construction"));
    }
    let gate = Gate::open(&target, setup(Probe::Full));
    assert_eq!(gate.widths(width(3), 1999), widths(&[1, 2]));
    assert!(gate.verdicts().iter().all(|verdict| verdict.basis() == "by construction, and probed"));
}

#[test]
fn without_a_probe_nothing_measured_runs() {
    let target = scripted(2000);
    let gate = Gate::open(target.as_ref(), Setup { probe: Probe::Off, ..measured(VOCAB, &[2, 4]) });
    assert_eq!(gate.widths(width(4), 0), widths(&[1]));
    assert_eq!(gate.check(width(4), 0).unwrap_err().to_string(), "width 4 was not probed");
}

/// A target that remembers how many rows its blocks had.
struct Recorder {
    inner: Box<dyn Target>,
    widths: Mutex<BTreeSet<usize>>,
}

impl Recorder {
    fn new(inner: Box<dyn Target>) -> Self {
        Self { inner, widths: Mutex::default() }
    }

    /// What was forwarded since the last call.
    fn take(&self) -> BTreeSet<usize> {
        std::mem::take(&mut *self.widths.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Target for Recorder {
    fn spec(&self) -> &TargetSpec {
        self.inner.spec()
    }

    fn new_state(&self, slack: Width) -> SequenceState {
        self.inner.new_state(slack)
    }

    fn forward(&self, segments: &mut [Segment<'_>]) -> Result<Vec<Output>> {
        let blocks = segments.iter().filter(|segment| segment.state.is_open());
        self.widths.lock().unwrap().extend(blocks.map(|segment| segment.tokens.len()));
        self.inner.forward(segments)
    }

    fn embedding(&self) -> Embedding {
        self.inner.embedding()
    }

    fn head(&self) -> Linear {
        self.inner.head()
    }
}

/// A drafter that proposes less than it was asked for now and then.
struct Short(ScriptedDrafter);

impl Drafter for Short {
    fn spec(&self) -> &DrafterSpec {
        self.0.spec()
    }

    fn new_context(&self) -> mlxcel_core::family::DrafterContext {
        self.0.new_context()
    }

    fn observe(&self, jobs: &mut [mlxcel_core::family::Observe<'_>]) -> Result<()> {
        self.0.observe(jobs)
    }

    fn propose(
        &self,
        jobs: &mut [mlxcel_core::family::Draft<'_>],
    ) -> Result<Vec<mlxcel_core::family::Proposals>> {
        let mut all = self.0.propose(jobs)?;
        for (proposals, job) in all.iter_mut().zip(jobs) {
            proposals.truncate(1 + job.position.0 % TRAINED);
        }
        Ok(all)
    }
}

fn prompt(len: usize) -> Vec<TokenId> {
    random::tokens(5, len, VOCAB)
}

/// An answer on `target` behind a gate, and the classic one.
fn both(target: &dyn Target, drafter: &dyn Drafter, gate: &Gate, ask: &Ask, rows: usize) -> (Run, Run) {
    let vocabulary = whole_vocabulary(VOCAB);
    let models = Models { target, drafter: Some(drafter), vocabulary: &vocabulary, gate };
    (serve(models, ask, Some(width(rows))), run(models, ask, None).unwrap())
}

/// An answer as requests get it, with the gate asked to probe on.
fn serve(models: Models<'_>, ask: &Ask, rows: Option<Width>) -> Run {
    let request = ask.request(models.vocabulary, rows).unwrap();
    let mut decisions = Vec::new();
    let generated = generate(models, request, &mut |event| {
        if let mlxcel_core::speculative::Event::Tokens { decisions: new, .. } = event {
            decisions.extend_from_slice(new);
        }
        std::ops::ControlFlow::Continue(())
    });
    let generated = generated.unwrap();
    let finish = generated.finish.unwrap();
    let (report, text) = (generated.report, String::new());
    Run { decisions, rounds: Vec::new(), finish, report, state: Vec::new(), text }
}

fn drafter() -> ScriptedDrafter {
    ScriptedDrafter::new(SCRIPT, width(TRAINED))
}

/// Equal at 1 and 16, not at 4: the drafter starts at 4.
#[test]
fn the_width_in_use_is_the_one_that_counts() {
    let target = planted(2000, TargetDefect::ChoiceInBlocksOf(4));
    let gate = Gate::open(&target, measured(VOCAB, &[4, 16]));
    let target = Recorder::new(Box::new(target));
    let (found, classic) = both(&target, &drafter(), &gate, &Ask::greedy(&prompt(6), 40), 4);
    assert_eq!(found.tokens(), classic.tokens());
    assert_eq!(target.take(), [1].into());
    let decline = found.report.decline.unwrap();
    assert!(matches!(decline, Decline::Exactness(Refusal::Differs(_))));
    // The best logit, written over, is the only one that differs.
    assert_eq!(decline.to_string(), "exactness: width 4 differs in 4 of 384 logit bytes");
    assert_eq!(gate.widest(width(16), 0), width(16));
}

/// Equal at 1, 4 and 16, not at 8.
#[test]
fn a_width_on_the_way_is_stepped_over() {
    let target = Recorder::new(Box::new(planted(2000, TargetDefect::ChoiceInBlocksOf(8))));
    let gate = Gate::open(&target, measured(VOCAB, &[4, 8, 16]));
    target.take();
    for budget in 1..40 {
        let (found, classic) = both(&target, &drafter(), &gate, &Ask::greedy(&prompt(6), budget), 16);
        assert_eq!(found.tokens(), classic.tokens(), "{budget} tokens");
    }
    assert_eq!(target.take(), [1, 4, 16].into());
}

/// Equal at 1, 2 and 4, not at 3; answers of 1 to 12 tokens, whose last rounds have room for 3 rows.
#[test]
fn the_last_round_takes_a_width_that_passed() {
    let target = Recorder::new(Box::new(planted(2000, TargetDefect::ChoiceInBlocksOf(3))));
    let gate = Gate::open(&target, measured(VOCAB, &[2, 3, 4]));
    target.take();
    for budget in 1..=12 {
        let (found, classic) = both(&target, &drafter(), &gate, &Ask::greedy(&prompt(6), budget), 4);
        assert_eq!(found.tokens(), classic.tokens(), "{budget} tokens");
    }
    assert_eq!(target.take(), [1, 2, 4].into());
}

/// Two checkpoints of equal shapes, one after the other: each has its own verdict, and keeps it.
#[test]
fn verdicts_are_a_checkpoints_own() {
    let folder = tempfile::tempdir().unwrap();
    let exact = scripted(2000);
    let other = planted(2000, TargetDefect::BitInBlocksOf(4));
    let gate = |target: &dyn Target, digest: &str, probe| {
        let key = Key::current(Executor::MLX_F32, digest.to_owned());
        let kept = Some((key, Store::at(folder.path())));
        Gate::open(target, Setup { kept, probe, ..measured(VOCAB, &[4]) })
    };
    assert!(gate(exact.as_ref(), "a", Probe::Fast).check(width(4), 0).is_ok());
    assert!(gate(&other, "b", Probe::Fast).check(width(4), 0).is_err());
    // From here on nothing is probed: what is known comes from the files.
    let kept = gate(exact.as_ref(), "a", Probe::Off);
    assert_eq!((kept.check(width(4), 0), kept.cost().kept), (Ok(()), 1));
    assert!(matches!(gate(exact.as_ref(), "b", Probe::Off).check(width(4), 0), Err(Refusal::Differs(_))));
    assert!(matches!(
        gate(exact.as_ref(), "c", Probe::Off).check(width(4), 0),
        Err(Refusal::NotProbed { .. })
    ));
    // A full probe does not believe what was kept.
    assert!(gate(&other, "a", Probe::Full).check(width(4), 0).is_err());
}

/// Equal everywhere: 300 rounds and more, with a drafter that proposes less than it was asked for.
#[test]
fn no_width_runs_that_was_not_probed() {
    let target = Recorder::new(scripted(4000));
    let chosen = Setup::widths(Executor::MLX_F32, Probe::Fast, width(TRAINED), &[]);
    let gate = Gate::open(&target, Setup { widths: chosen.clone(), ..measured(VOCAB, &[]) });
    target.take();
    let (drafter, mut rounds) = (Short(drafter()), 0);
    for budget in [7, 60, 61, 62, 63, 300] {
        for rows in [2, 5, 11, 16] {
            let (found, classic) = both(&target, &drafter, &gate, &Ask::greedy(&prompt(6), budget), rows);
            assert_eq!(found.tokens(), classic.tokens(), "{budget} tokens, width {rows}");
            rounds += found.report.rounds;
        }
    }
    assert!(rounds >= 300);
    let probed: BTreeSet<_> = chosen.iter().map(|width| width.rows()).chain([1]).collect();
    let forwarded = target.take();
    assert!(forwarded.is_subset(&probed), "{forwarded:?}, probed were {probed:?}");
    assert!(forwarded.len() > 4, "{forwarded:?}");
}

/// A request that grows past what was probed is probed there first, and where that fails it goes on row by row.
#[test]
fn a_growing_context_is_probed_on_the_way() {
    let ask = Ask::greedy(&prompt(590), 60);
    let exact = Recorder::new(scripted(2000));
    let gate = Gate::open(&exact, measured(VOCAB, &[4]));
    assert!(matches!(gate.check(width(4), 601), Err(Refusal::Beyond { longest: 600, .. })));
    exact.take();
    let (found, classic) = both(&exact, &drafter(), &gate, &ask, 4);
    assert_eq!((found.tokens(), found.report.decline), (classic.tokens(), None));
    assert!(gate.check(width(4), 1200).is_ok());
    // The last tokens have no room for the only width there is.
    let rounds = |rows| found.report.widths.get(&rows).copied().unwrap_or(0);
    assert!(rounds(1) <= 3 && rounds(4) > 10, "{:?}", found.report.widths);

    let target = planted(2000, TargetDefect::ChoiceFrom(610));
    let gate = Gate::open(&target, measured(VOCAB, &[4]));
    assert!(gate.check(width(4), 600).is_ok());
    let (found, classic) = both(&target, &drafter(), &gate, &ask, 4);
    assert_eq!(found.tokens(), classic.tokens());
    assert!(matches!(found.report.decline, Some(Decline::Exactness(Refusal::Differs(_)))));
    assert!(found.report.widths[&1] > 20, "{:?}", found.report.widths);
}

/// Without the gate the same target gives other tokens: what the tests above rest on.
#[test]
fn an_inexact_width_that_is_allowed_is_announced() {
    let target = planted(2000, TargetDefect::ChoiceInBlocksOf(4));
    let gate = Gate::open(&target, Setup { allow_inexact: true, ..measured(VOCAB, &[4]) });
    let oracle = ScriptedDrafter::new(Script { agreement: 100, ..SCRIPT }, width(TRAINED));
    let (found, classic) = both(&target, &oracle, &gate, &Ask::greedy(&prompt(6), 40), 4);
    assert_ne!(found.tokens(), classic.tokens());
    assert_eq!(found.report.decline, None);
    assert!(matches!(found.report.inexact, Some(Refusal::Differs(_))));
    assert_eq!(classic.report.inexact, None);
}

/// What MLX's own operators give on this machine, whatever it is: the gate's word holds.
#[test]
fn on_the_mlx_executor_the_verdicts_hold() {
    let pair = &random::lfm2::pairs()[0];
    let executor = Executor::MLX_BF16;
    let target = mlxcel_core::family::load_target(pair.target.open().unwrap(), executor).unwrap();
    let drafter =
        mlxcel_core::family::load_drafter(pair.drafter.open().unwrap(), target.as_ref(), executor).unwrap();
    let vocab = target.spec().vocab;
    let trained = drafter.spec().trained_width;
    let vocabulary = whole_vocabulary(vocab);
    let setup = Setup::new(executor, vocabulary.clone(), Setup::widths(executor, Probe::Fast, trained, &[]));
    let gate = Gate::open(target.as_ref(), setup);
    let models = Models {
        target: target.as_ref(),
        drafter: Some(drafter.as_ref()),
        vocabulary: &vocabulary,
        gate: &gate,
    };
    let ask = Ask::greedy(&random::tokens(3, 12, vocab), 48);
    let classic = serve(models, &ask, None);
    for verdict in gate.verdicts() {
        assert!(verdict.longest.is_some());
        let found = serve(models, &ask, Some(verdict.width));
        assert_eq!(found.tokens(), classic.tokens(), "width {}", verdict.width);
        assert_eq!(found.report.decline.is_some(), verdict.difference.is_some(), "width {}", verdict.width);
    }
}
