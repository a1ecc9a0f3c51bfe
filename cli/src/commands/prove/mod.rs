//! `mlxcel prove`: classic and speculative answers to the same prompts, in turn: are the tokens equal, and what does it gain?

mod arms;
mod divergence;
mod interval;
mod prompts;
mod report;

use anyhow::Result;
use mlxcel_core::nn::set_threads;

use crate::{
    args::ProveArgs,
    error::{Quiet, Usage},
    exactness,
    load::Loaded,
    logging,
    notes::Notes,
};

/// Compares both ways of decoding on the prompts that `args` name.
pub(crate) fn prove(args: &ProveArgs) -> Result<()> {
    logging::init(false);
    if let Some(threads) = args.threads {
        set_threads(threads);
    }
    if !args.models.names_drafter() {
        let nothing = "there is nothing to compare without a drafter\nhint: name one with --draft-model";
        return Err(Usage::new(nothing).into());
    }
    let settings = arms::settings(args)?;
    let prompts = prompts::read(args.prompts.as_deref())?;
    let loaded = Loaded::load(&args.models, &args.exactness, args.speculation.draft_block_size, false)?;
    let notes = Notes { quiet: false };
    if let Some(note) = exactness::note(&loaded.gate) {
        notes.line(&note);
    }
    let prompts = prompts::ids(prompts, &loaded.text, args.chat)?;
    let proof = arms::compare(&loaded, &prompts, &settings, args, notes)?;
    let report = if args.json { format!("{:#}\n", report::json(&proof)) } else { report::text(&proof) };
    super::print(&report)?;
    if proof.equal() { Ok(()) } else { Err(Quiet::Reported.into()) }
}
