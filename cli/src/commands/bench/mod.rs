//! `mlxcel bench`: what forwards cost by width, and what speculation gains, measured in turn.

mod forwards;
mod generation;
mod samples;

pub(crate) use generation::rate;
pub(super) use samples::Samples;

use anyhow::{Result, bail};
use mlxcel_core::{
    TokenId, Width,
    family::{Drafter, Target},
    sampling::Seed,
    speculative::Models,
};
use serde_json::json;

use crate::{
    args::BenchArgs,
    load::{self, Bare},
    logging,
};

/// Measures the models that `args` name.
pub(crate) fn bench(args: &BenchArgs) -> Result<()> {
    logging::init(false);
    let Bare { target, drafter, vocabulary, gate } =
        load::models(&args.models, &args.exactness, &args.widths)?;
    let widths = widths(args, drafter.as_deref());
    check_room(target.as_ref(), &widths, args)?;
    let prompt = tokens(target.as_ref(), args.context);
    let forwards = forwards::measure(target.as_ref(), &prompt, &widths, args)?;
    let generation = match drafter {
        Some(drafter) => {
            let rates = args.draft_synthetic.clone();
            let target = target.as_ref();
            let models = Models { target, drafter: None, vocabulary: &vocabulary, gate: &gate };
            Some(generation::measure(models, drafter, rates, &prompt, &widths, args)?)
        }
        None => None,
    };
    if args.json {
        let report = json!({ "forwards": forwards.json(), "generation": generation.map(|g| g.json()) });
        return super::print(&format!("{report:#}\n"));
    }
    let generation = generation.map(|generation| generation.text()).unwrap_or_default();
    super::print(&format!("{}{generation}", forwards.text()))
}

/// The widths that were asked for, or the usual ones within the drafter's bound.
fn widths(args: &BenchArgs, drafter: Option<&dyn Drafter>) -> Vec<Width> {
    if !args.widths.is_empty() {
        return args.widths.clone();
    }
    let limit = drafter.map(|drafter| drafter.spec().trained_width);
    let usual = [1, 2, 4, 8, 16].into_iter().filter_map(Width::new);
    usual.filter(|width| limit.is_none_or(|limit| *width <= limit)).collect()
}

/// Whether all that is to be measured fits the model's context, before anything is made for it.
fn check_room(target: &dyn Target, widths: &[Width], args: &BenchArgs) -> Result<()> {
    let context = target.spec().context;
    let widest = widths.iter().map(|width| width.rows()).max().unwrap_or(1);
    if args.context < widest {
        bail!(
            "--context is {}, and blocks of {widest} rows are made of its tokens: give at least as many",
            args.context
        )
    }
    let wanted = [
        ("--context and the widest of --widths", args.context.saturating_add(widest)),
        ("--context and --tokens", args.context.saturating_add(args.tokens)),
        ("--prefill", args.prefill),
    ];
    match wanted.into_iter().find(|(_, rows)| *rows > context) {
        Some((flags, rows)) => {
            bail!("{flags} ask for {rows} rows, and the context of this model has {context}")
        }
        None => Ok(()),
    }
}

/// Ids that look like text to the kernels: spread over the vocabulary, the same in every run.
pub(super) fn tokens(target: &dyn Target, count: usize) -> Vec<TokenId> {
    let vocab = target.spec().vocab as u64;
    (0..count as u64)
        .map(|i| TokenId((i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).rem_euclid(vocab) as u32))
        .collect()
}

/// The seed of everything that is drawn.
const SEED: Seed = Seed(1);
