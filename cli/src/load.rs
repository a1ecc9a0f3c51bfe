//! From what the user named to models that can answer.

use std::{borrow::Cow, io, sync::Arc};

use anyhow::{Context, Result};
use mlxcel_core::{
    Width,
    checkpoint::{Checkpoint, HubCache},
    engine::EngineModels,
    exactness::Gate,
    family::{
        DraftFlags, Drafter, Target, check_families, check_width, load_drafter, load_target, target_family,
    },
    nn::Executor,
    sampling::Vocabulary,
    speculative::{
        Models, Speculation,
        width::{ConfidenceUse, PairKey, SharedEvidence, WidthPolicy, WidthSet},
    },
    text::{TextFiles, TextModel},
};

#[cfg(not(feature = "demo"))]
use crate::error::Usage;
use crate::{
    args::ModelArgs,
    exactness::{self, ExactnessArgs},
    learning::{EvidenceArgs, Learning},
};

/// A checkpoint and what it is called.
pub(crate) struct Named {
    /// What the user wrote.
    reference: String,
    /// For people: `owner/name`, or a folder's own name.
    pub(crate) name: String,
    pub(crate) checkpoint: Checkpoint,
}

/// Everything that answers.
pub(crate) struct Loaded {
    /// What the target is called.
    pub(crate) name: String,
    pub(crate) target: Box<dyn Target>,
    pub(crate) drafter: Option<Box<dyn Drafter>>,
    pub(crate) text: Text,
    pub(crate) vocabulary: Arc<Vocabulary>,
    /// The widths that may run.
    pub(crate) gate: Gate,
    /// Digests of target and drafter, and what they run on: what evidence of the pair is kept under.
    pub(crate) key: Option<PairKey>,
    /// What earlier answers taught of the pair.
    pub(crate) evidence: SharedEvidence,
}

/// Text in and out of the target.
pub(crate) struct Text {
    /// What the checkpoint says about text.
    pub(crate) model: Arc<TextModel>,
    /// The token that starts every text, if the model has one.
    pub(crate) bos: Option<String>,
}

impl Loaded {
    /// Loads the models that `args` name, or the pair inside the program; the target alone if `classic`. Blocks of
    /// `block_size` rows must be within the drafter's bound; which widths may run is found out as `exactness` says.
    pub(crate) fn load(
        args: &ModelArgs,
        exactness: &ExactnessArgs,
        block_size: Option<Width>,
        threads: Option<usize>,
        classic: bool,
    ) -> Result<Self> {
        let flags = DraftFlags { kind: args.draft_kind, block_size };
        flags.check_drafter(args.names_drafter())?;
        let target = open_target(args.model.as_deref())?;
        let drafter = if classic { None } else { open_drafter(args)? };
        check_config(&flags, drafter.as_ref())?;
        let (name, text) = (target.name.clone(), target.text()?);
        let executor = args.executor()?;
        let kept = exactness::kept(&target.checkpoint, executor);
        let key = pair_key(&target, drafter.as_ref(), executor, threads);
        let (target, drafter) = target.load(drafter, executor)?;
        if let Some(drafter) = &drafter {
            flags.check_width(drafter.spec())?;
        }
        let spec = target.spec();
        let known = |id| text.model.tokenizer.knows(id);
        let vocabulary = Arc::new(Vocabulary::new(spec.vocab, known, &spec.suppressed));
        let widths: Vec<_> = block_size.into_iter().collect();
        let gate = exactness.gate(target.as_ref(), drafter.as_deref(), &vocabulary, executor, kept, &widths);
        let evidence = SharedEvidence::default();
        Ok(Self { name, target, drafter, text, vocabulary, gate, key, evidence })
    }

    /// Widths chosen by what is measured, up to `ceiling` or the trained width, and cut by the drafter's confidence as
    /// `confidence` says.
    pub(crate) fn adaptive(&self, ceiling: Option<Width>, confidence: ConfidenceUse) -> Speculation {
        let Some(drafter) = &self.drafter else { return Speculation::Fixed(Width::ONE) };
        let trained = drafter.spec().trained_width;
        let widths = WidthSet::up_to(ceiling.unwrap_or(trained));
        let policy = WidthPolicy::new(self.evidence.clone(), &widths, trained);
        Speculation::Adaptive(policy.with_confidence(confidence))
    }

    /// What was loaded, in a line.
    pub(crate) fn describe(&self) -> String {
        let spec = self.target.spec();
        let drafter = self.drafter.as_ref().map(|drafter| drafter.spec()).map_or_else(
            || "no drafter".to_owned(),
            |spec| format!("{} drafter, widths up to {}", spec.family, spec.trained_width),
        );
        format!(
            "{}: {} target, {} layers, context {}; {drafter}",
            self.name, spec.family, spec.layers, spec.context
        )
    }

    pub(crate) fn models(&self) -> Models<'_> {
        Models {
            target: self.target.as_ref(),
            drafter: self.drafter.as_deref(),
            vocabulary: &self.vocabulary,
            gate: &self.gate,
        }
    }
}

/// Checkpoints that are open, with their texts: what is wrong with files is known before weights are read.
pub(crate) struct Opened {
    /// What the target is called.
    pub(crate) name: String,
    pub(crate) text: Text,
    target: Named,
    drafter: Option<Named>,
    flags: DraftFlags,
    exactness: ExactnessArgs,
    /// The executor that was asked for.
    executor: Option<Executor>,
    threads: Option<usize>,
}

impl Opened {
    /// Opens what `args` name, or the pair inside the program; the target alone if `classic`.
    pub(crate) fn open(
        args: &ModelArgs,
        exactness: &ExactnessArgs,
        block_size: Option<Width>,
        threads: Option<usize>,
        classic: bool,
    ) -> Result<Self> {
        let flags = DraftFlags { kind: args.draft_kind, block_size };
        flags.check_drafter(args.names_drafter())?;
        let target = open_target(args.model.as_deref())?;
        let drafter = if classic { None } else { open_drafter(args)? };
        check_config(&flags, drafter.as_ref())?;
        let (name, text) = (target.name.clone(), target.text()?);
        let (exactness, executor) = (exactness.clone(), args.executor);
        Ok(Self { name, text, target, drafter, flags, exactness, executor, threads })
    }

    /// Loads the models, on the thread that will own them, with what is known of their widths.
    pub(crate) fn load(self, evidence: &EvidenceArgs) -> Result<(EngineModels, Learning)> {
        let Self { text, target, drafter, flags, exactness, executor, threads, .. } = self;
        let detected = Executor::detect()?;
        let executor = executor.unwrap_or(detected);
        let kept = exactness::kept(&target.checkpoint, executor);
        let key = pair_key(&target, drafter.as_ref(), executor, threads);
        let (target, drafter) = target.load(drafter, executor)?;
        if let Some(drafter) = &drafter {
            flags.check_width(drafter.spec())?;
        }
        let spec = target.spec();
        let known = |id| text.model.tokenizer.knows(id);
        let vocabulary = Arc::new(Vocabulary::new(spec.vocab, known, &spec.suppressed));
        let widths: Vec<_> = flags.block_size.into_iter().collect();
        let gate = exactness.gate(target.as_ref(), drafter.as_deref(), &vocabulary, executor, kept, &widths);
        if let Some(note) = exactness::note(&gate) {
            tracing::info!("{note}");
        }
        // A row's bits are the same in any company where they are by construction; nobody has shown it elsewhere.
        let batched = executor.is_row_exact();
        let mut learning = Learning::open(evidence, key);
        let evidence = learning.evidence();
        Ok((EngineModels { target, drafter, vocabulary, gate, evidence, batched }, learning))
    }
}

/// Refuses a width over the drafter's bound before anything large is read.
fn check_config(flags: &DraftFlags, drafter: Option<&Named>) -> Result<()> {
    let Some(drafter) = drafter else { return Ok(()) };
    match flags.check_config(&drafter.checkpoint) {
        // The flag is at fault, not the drafter.
        Err(mlxcel_core::Error::Start(error)) => Err(error.into()),
        other => other.with_context(|| format!("cannot load the drafter {}", drafter.reference)),
    }
}

/// What evidence of the pair is kept under; `threads` as the user set them.
fn pair_key(
    target: &Named,
    drafter: Option<&Named>,
    executor: Executor,
    threads: Option<usize>,
) -> Option<PairKey> {
    let (target, drafter) = (target.checkpoint.digest(), drafter?.checkpoint.digest());
    Some(PairKey::current(target, drafter, executor, threads))
}

/// Models without their texts: every id may be emitted.
pub(crate) struct Bare {
    pub(crate) target: Box<dyn Target>,
    pub(crate) drafter: Option<Box<dyn Drafter>>,
    pub(crate) vocabulary: Arc<Vocabulary>,
    pub(crate) gate: Gate,
}

/// The models that `args` name, without their texts. All `widths` must be within the drafter's bound.
pub(crate) fn models(args: &ModelArgs, exactness: &ExactnessArgs, widths: &[Width]) -> Result<Bare> {
    let flags = DraftFlags { kind: args.draft_kind, block_size: None };
    flags.check_drafter(args.names_drafter())?;
    let executor = args.executor()?;
    let target = open_target(args.model.as_deref())?;
    let kept = exactness::kept(&target.checkpoint, executor);
    let (target, drafter) = target.load(open_drafter(args)?, executor)?;
    if let Some(drafter) = &drafter {
        widths.iter().try_for_each(|width| check_width("--widths", *width, drafter.spec()))?;
    }
    let vocabulary = Arc::new(Vocabulary::all(target.spec().vocab));
    let gate = exactness.gate(target.as_ref(), drafter.as_deref(), &vocabulary, executor, kept, widths);
    Ok(Bare { target, drafter, vocabulary, gate })
}

/// A target, and a drafter that fits it.
type Pair = (Box<dyn Target>, Option<Box<dyn Drafter>>);

impl Named {
    /// Loads both; which fits which is checked before anything large is read.
    pub(crate) fn load(self, drafter: Option<Self>, executor: Executor) -> Result<Pair> {
        let Self { reference, checkpoint, .. } = self;
        if let Some(drafter) = &drafter {
            target_family(&checkpoint).with_context(|| format!("cannot load the target {reference}"))?;
            check_families(&checkpoint, &drafter.checkpoint)
                .with_context(|| format!("cannot load the drafter {}", drafter.reference))?;
        }
        let target = load_target(checkpoint, executor)
            .with_context(|| format!("cannot load the target {reference}"))?;
        let load = |drafter: Self| {
            load_drafter(drafter.checkpoint, target.as_ref(), executor)
                .with_context(|| format!("cannot load the drafter {}", drafter.reference))
        };
        let drafter = drafter.map(load).transpose()?;
        Ok((target, drafter))
    }

    fn text(&self) -> Result<Text> {
        let load = || {
            // A drafter has no text files: what it is comes first.
            target_family(&self.checkpoint)?;
            Text::load(&self.checkpoint)
        };
        load().with_context(|| format!("cannot load the target {}", self.reference))
    }
}

impl Text {
    fn load(checkpoint: &Checkpoint) -> Result<Self> {
        let read = |name: &str| match checkpoint.source().bytes(name) {
            Ok(bytes) => Ok(bytes.map(|bytes| Cow::Owned(bytes.to_vec()))),
            Err(error) => Err(io::Error::other(error)),
        };
        let files = TextFiles::load(read)?;
        let model = TextModel::load(&files)?;
        let bos = files.bos_token()?.filter(|token| model.tokenizer.added_id(token).is_some());
        Ok(Self { model: Arc::new(model), bos })
    }
}

/// Opens the target's checkpoint.
pub(crate) fn open_target(model: Option<&str>) -> Result<Named> {
    match model {
        Some(reference) => open(reference).with_context(|| format!("cannot load the target {reference}")),
        None => demo_target(),
    }
}

/// Opens the drafter's checkpoint, if there is to be one.
pub(crate) fn open_drafter(args: &ModelArgs) -> Result<Option<Named>> {
    match (&args.draft_model, &args.model) {
        (Some(reference), _) => {
            open(reference).map(Some).with_context(|| format!("cannot load the drafter {reference}"))
        }
        (None, Some(_)) => Ok(None),
        (None, None) => demo_drafter().map(Some),
    }
}

fn open(reference: &str) -> Result<Named> {
    let located = HubCache::from_env().locate(reference)?;
    let checkpoint = Checkpoint::open(located.folder)?;
    Ok(Named { reference: reference.to_owned(), name: located.name, checkpoint })
}

#[cfg(feature = "demo")]
fn demo_target() -> Result<Named> {
    embedded(mlxcel_demo::NAME.to_owned(), mlxcel_demo::TARGET)
}

#[cfg(feature = "demo")]
fn demo_drafter() -> Result<Named> {
    embedded(format!("{}-drafter", mlxcel_demo::NAME), mlxcel_demo::DRAFTER)
}

#[cfg(feature = "demo")]
fn embedded(name: String, files: mlxcel_demo::Files) -> Result<Named> {
    Ok(Named { reference: name.clone(), name, checkpoint: Checkpoint::embedded(files)? })
}

#[cfg(not(feature = "demo"))]
fn demo_target() -> Result<Named> {
    let usage = "no model: this program was built without the pair inside\nhint: name a model with -m";
    Err(Usage::new(usage).into())
}

#[cfg(not(feature = "demo"))]
fn demo_drafter() -> Result<Named> {
    demo_target()
}
