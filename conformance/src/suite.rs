//! What a family inherits: one list of checks, run on golden cases, random checkpoints, the trained pair of the
//! repository, and folders that are named.

use std::path::{Path, PathBuf};

use mlxcel_core::{
    TokenId, Width,
    family::target_families,
    state::{LayerState, StateKind},
};

use crate::{
    At as _, Check, Failure, Scope, abandon, acceptance, batch, bounds, breaches, clipping, cuts, drafting,
    ensure,
    exactness::{self, block_equals_chain, same_as_classic, same_run},
    mixed,
    pair::Pair,
    pairing::{self, Misfit},
    random::{self, RandomPair},
    rollback,
    rounds::{Ask, run, run_planned},
    say, sizes, suppressed,
    text::{Prompt, Text},
    trained::Trained,
};

/// Folders of further pairs to check: `target:drafter`, separated by spaces or commas.
pub const CHECKPOINTS: &str = "MLXCEL_CHECKPOINTS";

/// A family, as its suite needs it.
pub struct Family {
    /// `model_type` values of its targets: which of the named folders are its own.
    pub model_types: &'static [&'static str],
    /// Random checkpoints, one for every shape that its loader tells apart.
    pub random: fn() -> Vec<RandomPair>,
    /// Drafter configs that must be refused.
    pub misfits: fn(&RandomPair) -> Vec<Misfit>,
    /// The trained pair of the repository.
    pub trained: Option<Trained>,
}

impl Family {
    /// Every random pair, at every width, in full.
    pub fn random(&self, check: fn(&Pair, u64) -> Check) -> Check {
        for (seed, pair) in (self.random)().iter().enumerate() {
            check(&pair.load().at(pair.name)?, seed as u64).at(pair.name)?;
        }
        Ok(())
    }

    /// [`clipping_of`] on every random pair.
    pub fn clipping(&self) -> Check {
        for (seed, pair) in (self.random)().iter().enumerate() {
            clipping_of(pair.load().at(pair.name)?, seed as u64).at(pair.name)?;
        }
        Ok(())
    }

    /// [`cuts::short_blocks_of`] and [`cuts::cuts_of`] on every random pair.
    pub fn cuts(&self) -> Check {
        for (seed, pair) in (self.random)().iter().enumerate() {
            let loaded = cuts::short_blocks_of(pair.load().at(pair.name)?, seed as u64).at(pair.name)?;
            cuts::cuts_of(loaded, seed as u64).at(pair.name)?;
        }
        Ok(())
    }

    /// [`mixed::mixed_of`] on every random pair.
    pub fn mixed(&self, scope: Scope) -> Check {
        let cases = if scope == Scope::Full { 60 } else { 6 };
        for (seed, pair) in (self.random)().iter().enumerate() {
            mixed::mixed_of(pair.load().at(pair.name)?, seed as u64, cases).at(pair.name)?;
        }
        Ok(())
    }

    /// Pairing refusals, on the first random pair.
    pub fn refusals(&self) -> Check {
        let pairs = (self.random)();
        let Some(pair) = pairs.first() else { return Err(Failure::Fixture("no random pair".to_owned())) };
        pairing::refusals(pair, &(self.misfits)(pair))?;
        pairing::roles(pair)
    }

    /// Numbers, scales and tensors that cannot be, on every random pair.
    pub fn bad_input(&self) -> Check {
        for pair in (self.random)() {
            bounds::every_number(&pair).at(pair.name)?;
            bounds::missing_scales(&pair).at(pair.name)?;
            bounds::unused_tensor(&pair).at(pair.name)?;
        }
        Ok(())
    }

    /// Ids that `generation_config.json` suppresses, on every random pair.
    pub fn suppressed(&self) -> Check {
        (self.random)().iter().try_for_each(|pair| suppressed::never_emitted(pair).at(pair.name))
    }

    /// What the registry says of the family is so: its layers have the kinds of state that it names.
    pub fn registered(&self) -> Check {
        let families = target_families().map_err(mlxcel_core::Error::from)?;
        let Some(family) = families.iter().find(|family| family.model_types == self.model_types) else {
            return Err(Failure::Broken(format!("no family is registered for {:?}", self.model_types)));
        };
        let mut kinds: Vec<StateKind> = Vec::new();
        for pair in (self.random)() {
            let target = pair.load()?.target;
            ensure!(target.spec().family == family.name, "{} is not {}", target.spec().family, family.name);
            kinds.extend(target.new_state(Width::ONE).layer_states().iter().map(LayerState::kind));
        }
        kinds.sort_unstable();
        kinds.dedup();
        let states = family.states;
        ensure!(kinds == states, "the layers' states are {kinds:?}, the registry says {states:?}");
        Ok(())
    }

    /// The context's edge, on random pairs whose config allows 24 rows only.
    pub fn context_edge(&self) -> Check {
        for pair in (self.random)() {
            let mut config = pair.target.config.clone();
            // A model inside another one has its fields in a section of their own.
            let wrapped = config["text_config"].is_object();
            let text = if wrapped { &mut config["text_config"] } else { &mut config };
            text["max_position_embeddings"] = 24.into();
            let loaded = pair.load_as(config)?;
            let prompt = prompt(&loaded, 3, 25);
            let widths = all_widths(&loaded);
            clipping::context_edge(loaded.models(), &prompt, &widths).at(pair.name)?;
        }
        Ok(())
    }

    /// The trained pair of the repository.
    pub fn trained(&self, scope: Scope) -> Check {
        let Some(trained) = &self.trained else {
            say("trained pair: not run, this family has none in the repository");
            return Ok(());
        };
        let (pair, text) = trained.open()?;
        acceptance::reaches(&pair, &text, trained.tokens_per_round).at(&pair.name)?;
        on_pair(pair, &text, scope)
    }

    /// Pairs named in [`CHECKPOINTS`], as far as they are of this family.
    pub fn named(&self, scope: Scope) -> Check {
        let named = std::env::var(CHECKPOINTS).unwrap_or_default();
        let mut run = 0;
        for (target, drafter) in parse_pairs(&named)? {
            if self.claims(&target)? {
                let (pair, text) = Pair::open(&target, &drafter)?;
                on_pair(pair, &text, scope)?;
                run += 1;
            }
        }
        if run == 0 {
            let types = self.model_types.join(", ");
            say(format_args!("further checkpoints: not run, {CHECKPOINTS} names no pair of {types}"));
        }
        Ok(())
    }

    fn claims(&self, target: &Path) -> Result<bool, Failure> {
        let bytes = std::fs::read(target.join("config.json")).at(target.display())?;
        let config: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| Failure::Fixture(error.to_string()))?;
        Ok(config["model_type"].as_str().is_some_and(|found| self.model_types.contains(&found)))
    }
}

fn parse_pairs(named: &str) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
    let pairs = named.split([' ', ',']).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| match pair.split_once(':') {
            Some((target, drafter)) => Ok((PathBuf::from(target), PathBuf::from(drafter))),
            None => {
                Err(Failure::Fixture(format!("{CHECKPOINTS}: {pair:?} is not of the form target:drafter")))
            }
        })
        .collect()
}

/// Speculative = classic on prompts of every kind, block = chain, and rollback, on a pair with a tokenizer.
pub fn on_pair(pair: Pair, text: &Text, scope: Scope) -> Check {
    let name = pair.name.clone();
    let prompts = Prompt::own()?;
    let trained = pair.drafter.spec().trained_width;
    let widths = scope.widths(&name, trained);
    let mut ids = Vec::new();
    for kind in ["code", "docs", "chat"] {
        let prompts: Vec<_> = prompts.iter().filter(|prompt| prompt.kind == kind).collect();
        for prompt in scope.take(&format!("{name}: {kind} prompts"), &prompts, 2) {
            ids.push((prompt.id.clone(), text.ids(prompt)?));
        }
    }
    // The quick set decodes long prompts greedily only.
    let short = ids.len();
    ids.extend(long_prompts(text, &prompts)?);
    let settings = exactness::settings();
    let settings = scope.take(&format!("{name}: settings"), &settings, 3);
    let tokens = if scope == Scope::Full { 64 } else { 24 };
    for (at, (id, prompt)) in ids.iter().enumerate() {
        let most = if scope == Scope::Full || at < short { settings.len() } else { 1 };
        for (i, sampling) in settings[..most].iter().enumerate() {
            let ask =
                Ask { sampling: sampling.clone(), eos: text.eos.clone(), ..Ask::greedy(prompt, tokens) };
            same_as_classic(pair.models(), &ask, &widths).at(format_args!("{name}: {id}, settings {i}"))?;
        }
    }
    let (prompt, block) = text_block(&ids, trained)?;
    block_equals_chain(pair.models(), &prompt, &block, &widths).at(&name)?;
    rollback::every_count(pair.target.as_ref(), &prompt, &block, &widths).at(&name)?;
    rollback::block_after_block(pair.target.as_ref(), &prompt, &block).at(&name)?;
    let pair = clipping::every_accepted_count(pair, &prompt, &widths)?;
    batch::mixed(pair.target.as_ref(), &prompt).at(&name)
}

/// Prompts cut from all those of code in a row, over and over: one whose answer crosses the edge of a window of 256 rows, and one
/// that crossed it and the end of a prefill chunk before.
fn long_prompts(text: &Text, prompts: &[Prompt]) -> Result<Vec<(String, Vec<TokenId>)>, Failure> {
    let mut all = Vec::new();
    for prompt in prompts.iter().filter(|prompt| prompt.kind == "code") {
        all.extend(text.ids(prompt)?);
    }
    let cut = |len: usize| (format!("{len} tokens of code"), all.iter().copied().cycle().take(len).collect());
    Ok([250, 540].map(cut).into())
}

/// A prompt, and a block of the tokens of another one.
fn text_block(ids: &[(String, Vec<TokenId>)], width: Width) -> Result<(Vec<TokenId>, Vec<TokenId>), Failure> {
    match ids {
        [(_, first), (_, second), ..] if second.len() >= width.rows() => {
            Ok((first.clone(), second[..width.rows()].to_vec()))
        }
        _ => Err(Failure::Fixture("two prompts are needed, the second as long as a block".to_owned())),
    }
}

fn all_widths(pair: &Pair) -> Vec<Width> {
    (1..=pair.drafter.spec().trained_width.rows()).filter_map(Width::new).collect()
}

fn prompt(pair: &Pair, seed: u64, len: usize) -> Vec<TokenId> {
    random::tokens(seed, len, pair.target.spec().vocab)
}

/// Speculative = classic, greedy and sampled, at every width: after a short prompt, whose answer crosses the edge of
/// small windows, and after one that crossed them before.
pub fn exactness_of(pair: &Pair, seed: u64) -> Check {
    let (short, long, widths) = (prompt(pair, seed, 7), prompt(pair, seed, 45), all_widths(pair));
    for (i, sampling) in exactness::settings().into_iter().enumerate() {
        let ask = Ask { sampling, choice: seed, ..Ask::greedy(&short, 18) };
        same_as_classic(pair.models(), &ask, &widths).at(format_args!("settings {i}"))?;
        if i < 3 {
            let ask = Ask { prompt: long.clone(), ..ask };
            same_as_classic(pair.models(), &ask, &widths).at(format_args!("long prompt, settings {i}"))?;
        }
    }
    Ok(())
}

/// Block logits = chain logits.
pub fn blocks_of(pair: &Pair, seed: u64) -> Check {
    let widths = all_widths(pair);
    for len in [1, 2, 17, 40] {
        let block = prompt(pair, seed + 1, widths.len());
        block_equals_chain(pair.models(), &prompt(pair, seed, len), &block, &widths)
            .at(format_args!("prompt of {len}"))?;
    }
    Ok(())
}

/// Rollback at every accepted count, forks, slack and growth.
pub fn rollback_of(pair: &Pair, seed: u64) -> Check {
    let (target, widths) = (pair.target.as_ref(), all_widths(pair));
    let block = prompt(pair, seed + 1, widths.len());
    for len in [1, 3, 17] {
        let prompt = prompt(pair, seed, len);
        rollback::every_count(target, &prompt, &block, &widths).at(format_args!("prompt of {len}"))?;
    }
    let short = prompt(pair, seed, 5);
    rollback::block_after_block(target, &short, &block)?;
    rollback::fork(target, &short, &block)?;
    rollback::slack(target, &short, &block)?;
    rollback::growth(target, &prompt(pair, seed + 2, 300))
}

/// States for blocks of every width, directly at 129 and 256 rows too, past the edge of small windows.
pub fn sizes_of(pair: &Pair, seed: u64) -> Check {
    sizes::at_every_width(pair.target.as_ref(), &prompt(pair, seed, 21), &prompt(pair, seed + 1, 520))
}

/// The drafter's context, in whatever pieces it came; misuse of states and taps.
pub fn contexts_of(pair: &Pair, seed: u64) -> Check {
    drafting::pieces(pair.target.as_ref(), pair.drafter.as_ref(), &prompt(pair, seed, 60))?;
    breaches::refused(pair.target.as_ref(), &prompt(pair, seed, 9))
}

/// Every end at every place, and every accepted count.
pub fn clipping_of(pair: Pair, seed: u64) -> Check {
    let (prompt, widths) = (prompt(&pair, seed, 6), all_widths(&pair));
    let width = Width::new(5).unwrap_or(Width::ONE);
    clipping::min_tokens(pair.models(), &prompt, width)?;
    clipping::width_bound(pair.models(), pair.drafter.as_ref(), &prompt)?;
    let pair = clipping::at_every_position(pair, &prompt, width)?;
    clipping::every_accepted_count(pair, &prompt, &widths)?;
    Ok(())
}

/// Widths that change from round to round, with parks between them that are shorter and longer than a block, give the tokens
/// of classic decoding.
pub fn changing_widths_of(pair: &Pair, seed: u64) -> Check {
    let prompt = prompt(pair, seed, 9);
    let trained = pair.drafter.spec().trained_width.rows();
    for (i, sampling) in exactness::settings().into_iter().take(3).enumerate() {
        let ask = Ask { sampling, choice: seed, ..Ask::greedy(&prompt, 40) };
        let classic = run(pair.models(), &ask, None)?;
        for plan in [&[1, 4, 1, 2][..], &[3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 8], &[1, 1, 1, 5, 5]] {
            let plan: Vec<_> = plan.iter().filter_map(|&rows| Width::new(rows.min(trained))).collect();
            let planned = run_planned(pair.models(), &ask, &plan)?;
            let used = planned.report.widths.len();
            ensure!(used > 1, "only widths {:?} of the plan {plan:?} were used", planned.report.widths);
            same_run(&planned, &classic).at(format_args!("settings {i}, widths {plan:?}"))?;
        }
    }
    Ok(())
}

/// Mixed segments = each alone; abandoned rounds leave nothing.
pub fn company_of(pair: &Pair, seed: u64) -> Check {
    batch::mixed(pair.target.as_ref(), &prompt(pair, seed, 40))?;
    let ask = Ask::greedy(&prompt(pair, seed, 6), 12);
    abandon::failing_forwards(pair.models(), &ask, Width::new(4).unwrap_or(Width::ONE))
}
