//! Which widths may run.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    DecideRows, HostDecide, Key, Refusal, Store, Verdict, Verdicts, WidthVerdict,
    probe::Prober,
    scene::{self, Scene},
};
use crate::{Result, Width, family::Target, nn::Executor, sampling::Vocabulary, speculative::guarded};

/// Widths far enough apart that each costs noticeably more than the one before.
const CHOICE: [usize; 7] = [2, 3, 4, 6, 8, 12, 16];

/// How much is probed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Probe {
    /// Nothing. Widths that are not exact by construction run only on verdicts that were kept.
    Off,
    /// What is neither exact by construction nor known from before.
    #[default]
    Fast,
    /// Everything, row-exact kernels too, in more places and behind longer prefixes; kept verdicts are replaced.
    Full,
}

/// What a gate is made from.
pub struct Setup {
    /// The target's executor.
    pub executor: Executor,
    /// The ids that may be emitted.
    pub vocabulary: Arc<Vocabulary>,
    /// Widths that may be asked for.
    pub widths: Vec<Width>,
    /// How much is probed.
    pub probe: Probe,
    /// Lets widths run that differ, or of which nothing is known.
    pub allow_inexact: bool,
    /// What verdicts depend on, and where they are kept; without it they are not.
    pub kept: Option<(Key, Store)>,
    /// How rows are decided.
    pub decide: Box<dyn DecideRows + Send>,
}

impl Setup {
    /// A quick probe of `widths`, decided on the host, without a place to keep verdicts.
    pub fn new(executor: Executor, vocabulary: Arc<Vocabulary>, widths: Vec<Width>) -> Self {
        let (probe, allow_inexact, kept) = (Probe::Fast, false, None);
        Self { executor, vocabulary, widths, probe, allow_inexact, kept, decide: Box::new(HostDecide) }
    }

    /// The widths worth asking about for a drafter trained for blocks of `trained` rows: all of them where they cost nothing
    /// or are to be probed in full, else those that a policy chooses from, and `also`.
    pub fn widths(executor: Executor, probe: Probe, trained: Width, also: &[Width]) -> Vec<Width> {
        let all = executor.is_row_exact() || probe == Probe::Full;
        let chosen = |width: &Width| {
            all || *width == trained || also.contains(width) || CHOICE.contains(&width.rows())
        };
        (2..=trained.rows()).filter_map(Width::new).filter(chosen).collect()
    }
}

/// What probing cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time of all probes.
    pub time: Duration,
    /// Verdicts that came from the cache.
    pub kept: usize,
}

/// Which widths may run, and why others may not. Width 1 always may. Clones share what they know.
#[derive(Clone)]
pub struct Gate(Option<Arc<Shared>>);

struct Shared {
    guard: Mutex<Guard>,
    /// The verdicts once more, for those who only look: the guard is held as long as a probe takes.
    told: Mutex<Vec<Verdict>>,
    allow_inexact: bool,
}

struct Guard {
    verdicts: BTreeMap<Width, Verdict>,
    setup: Setup,
    /// Windows of the target's layers.
    windows: Vec<usize>,
    cost: Cost,
    /// A probe failed: no more are tried.
    failed: bool,
}

impl Gate {
    /// Lets every width run: for targets and checks that need no gate.
    pub fn unguarded() -> &'static Self {
        static UNGUARDED: Gate = Gate(None);
        &UNGUARDED
    }

    /// Finds out which of the widths of `setup` may run on `target`. A probe that fails leaves its widths without a verdict,
    /// and the log says why: it costs speculation, not the answer.
    pub fn open(target: &dyn Target, setup: Setup) -> Self {
        let windows = target.new_state(Width::ONE).windows();
        let row_exact = setup.executor.is_row_exact();
        let verdict = |width: &Width| {
            let verdict =
                Verdict { width: *width, by_construction: row_exact, longest: None, difference: None };
            (*width, verdict)
        };
        let speculative = setup.widths.iter().filter(|width| **width > Width::ONE);
        let verdicts = speculative.map(verdict).collect();
        let mut guard = Guard { verdicts, setup, windows, cost: Cost::default(), failed: false };
        guard.recall();
        guard.probe_all(target);
        guard.announce();
        let (told, allow_inexact) = (Mutex::new(guard.told()), guard.setup.allow_inexact);
        Self(Some(Arc::new(Shared { guard: Mutex::new(guard), told, allow_inexact })))
    }

    /// Whether a block of `width` rows may run behind `context` rows.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, width: Width, context: usize) -> Result<(), Refusal> {
        self.lock().map_or(Ok(()), |guard| guard.check(width, context))
    }

    /// The widest block of at most `most` rows that may run behind `context` rows.
    pub fn widest(&self, most: Width, context: usize) -> Width {
        self.widths(most, context).last().copied().unwrap_or(Width::ONE)
    }

    /// All widths up to `most` that may run behind `context` rows, in order; 1 is among them.
    pub fn widths(&self, most: Width, context: usize) -> Vec<Width> {
        let guard = self.lock();
        let may = |width: &Width| guard.as_ref().is_none_or(|guard| guard.check(*width, context).is_ok());
        (1..=most.rows()).filter_map(Width::new).filter(may).collect()
    }

    /// What `--allow-inexact` passes over when a block of `width` rows runs behind `context` rows.
    pub fn overridden(&self, width: Width, context: usize) -> Option<Refusal> {
        self.lock()?.known(width, context).err()
    }

    /// Whether inexact widths may run.
    pub fn allows_inexact(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.allow_inexact)
    }

    /// All verdicts, by width, as they stood when the last probe ended: never waits for one.
    pub fn verdicts(&self) -> Vec<Verdict> {
        self.0.as_ref().map(|shared| lock(&shared.told).clone()).unwrap_or_default()
    }

    /// All verdicts as clients read them, without waiting for a probe; `None` for a gate that lets everything run.
    pub fn view(&self) -> Option<Verdicts> {
        let allow_inexact = self.0.as_ref()?.allow_inexact;
        let widths =
            self.verdicts().iter().map(|verdict| WidthVerdict::new(verdict, allow_inexact)).collect();
        Some(Verdicts { allow_inexact, widths })
    }

    /// The verdicts that reports name, of widths up to `most`: the usual ones, the widest, and all that differ.
    pub fn listed(&self, most: Width) -> Vec<Verdict> {
        let mut verdicts = self.verdicts();
        verdicts.retain(|verdict| verdict.width <= most);
        let widest = verdicts.last().map(|verdict| verdict.width);
        verdicts.retain(|verdict| {
            let usual = CHOICE.contains(&verdict.width.rows());
            usual || Some(verdict.width) == widest || verdict.difference.is_some()
        });
        verdicts
    }

    /// What probing cost so far.
    pub fn cost(&self) -> Cost {
        self.lock().map(|guard| guard.cost).unwrap_or_default()
    }

    /// Probes on behind contexts of `context` rows and more, if a width that was exact so far is not known to be there.
    /// Called for a request that grows, before its next block; a gate that is not asked keeps such a request at width 1.
    pub fn reach(&self, target: &dyn Target, context: usize) {
        let Some(shared) = &self.0 else { return };
        let mut guard = lock(&shared.guard);
        if guard.reach(target, context) {
            *lock(&shared.told) = guard.told();
        }
    }

    fn lock(&self) -> Option<MutexGuard<'_, Guard>> {
        self.0.as_ref().map(|shared| lock(&shared.guard))
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.view()).finish()
    }
}

/// A probe that panicked left the verdicts as they were.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guard {
    fn known(&self, width: Width, context: usize) -> Result<(), Refusal> {
        if width == Width::ONE {
            return Ok(());
        }
        self.verdicts.get(&width).map_or(Err(Refusal::NotProbed { width }), |verdict| verdict.check(context))
    }

    fn check(&self, width: Width, context: usize) -> Result<(), Refusal> {
        if self.setup.allow_inexact { Ok(()) } else { self.known(width, context) }
    }

    /// Takes over the verdicts of an earlier run.
    fn recall(&mut self) {
        let Some((key, store)) = self.setup.kept.as_ref().filter(|_| self.setup.probe != Probe::Full) else {
            return;
        };
        for verdict in store.read(key) {
            if let Some(own) = self.verdicts.get_mut(&verdict.width)
                && own.by_construction == verdict.by_construction
            {
                *own = verdict;
                self.cost.kept += 1;
            }
        }
    }

    fn probe_all(&mut self, target: &dyn Target) {
        let unknown = |verdict: &&Verdict| verdict.longest.is_none() && verdict.difference.is_none();
        let widths: Vec<_> = match self.setup.probe {
            Probe::Off => return,
            Probe::Full => self.verdicts.keys().copied().collect(),
            Probe::Fast => {
                let measured = self.verdicts.values().filter(|verdict| !verdict.by_construction);
                measured.filter(unknown).map(|verdict| verdict.width).collect()
            }
        };
        let full = self.setup.probe == Probe::Full;
        let scenes = scene::first(target.spec(), &self.windows, self.widest(), full);
        self.run(target, &scenes, &widths);
    }

    /// Says once, in the log, which widths are left out.
    fn announce(&self) {
        let refused = |width: &Width| Some((*width, self.known(*width, 0).err()?));
        let refused: Vec<_> = self.verdicts.keys().filter_map(refused).collect();
        let Some((_, first)) = refused.first() else { return };
        let widths: Vec<_> = refused.iter().map(|(width, _)| width.to_string()).collect();
        let what = if self.setup.allow_inexact { "used all the same" } else { "not used" };
        tracing::warn!("exactness: {first}; widths {what}: {}", widths.join(", "));
    }

    fn told(&self) -> Vec<Verdict> {
        self.verdicts.values().cloned().collect()
    }

    /// Says whether anything was probed.
    fn reach(&mut self, target: &dyn Target, context: usize) -> bool {
        if self.failed || self.setup.allow_inexact || self.setup.probe == Probe::Off {
            return false;
        }
        let short = |verdict: &&Verdict| {
            !verdict.by_construction
                && verdict.difference.is_none()
                && verdict.longest.is_some_and(|longest| longest < context)
        };
        let widths: Vec<_> = self.verdicts.values().filter(short).map(|verdict| verdict.width).collect();
        let longest = self.verdicts.values().filter(short).filter_map(|verdict| verdict.longest).min();
        let Some(longest) = longest else { return false };
        let scenes = scene::further(target.spec(), &self.windows, self.widest(), longest, context);
        self.run(target, &scenes, &widths);
        true
    }

    fn widest(&self) -> Width {
        self.verdicts.keys().next_back().copied().unwrap_or(Width::ONE)
    }

    /// Probes `widths` in `scenes`, and keeps what came out.
    fn run(&mut self, target: &dyn Target, scenes: &[Scene], widths: &[Width]) {
        if widths.is_empty() || scenes.is_empty() {
            return;
        }
        let start = Instant::now();
        if let Err(error) = guarded(|| self.try_run(target, scenes, widths)) {
            tracing::warn!("the exactness probe failed, widths that it did not reach are not used: {error}");
            self.failed = true;
        }
        self.cost.time += start.elapsed();
        if let Some((key, store)) = &self.setup.kept
            && let Err(error) = store.write(key, &self.told())
        {
            tracing::debug!("verdicts are not kept: {error}");
        }
    }

    fn try_run(&mut self, target: &dyn Target, scenes: &[Scene], widths: &[Width]) -> Result<()> {
        let prober = Prober::new(target, self.setup.decide.as_ref(), &self.setup.vocabulary, self.widest());
        // Of the widths that pass everywhere, the longest prefix. Nothing is known before all scenes are done.
        let mut passed: BTreeMap<Width, usize> = BTreeMap::new();
        let mut left = widths.to_vec();
        for scene in scenes {
            for (width, difference) in prober.run(scene, &left)? {
                if let (Some(difference), Some(verdict)) = (difference, self.verdicts.get_mut(&width)) {
                    verdict.difference = Some(difference);
                    verdict.longest = verdict.longest.max(Some(scene.prefix));
                    left.retain(|other| *other != width);
                    passed.remove(&width);
                } else {
                    let longest = passed.entry(width).or_default();
                    *longest = scene.prefix.max(*longest);
                }
            }
        }
        for (width, longest) in passed {
            if let Some(verdict) = self.verdicts.get_mut(&width) {
                verdict.longest = verdict.longest.max(Some(longest));
            }
        }
        Ok(())
    }
}
