//! `mlxcel run`.

use std::time::Instant;

use anyhow::Result;
use mlxcel_core::TokenId;

use crate::{
    answer::{Settings, answer},
    args::{RunArgs, Stats},
    closing,
    error::{Quiet, Usage},
    interrupt,
    load::Loaded,
    logging,
    output::{Notes, Plain},
    prompt,
};

/// Answers a prompt.
pub(crate) fn run(args: RunArgs) -> Result<()> {
    logging::init(args.quiet);
    interrupt::install();
    let settings = settings(&args)?;
    let Some(text) = prompt::read(args.prompt.clone(), args.raw)? else {
        return Err(Usage("no prompt\nhint: give one with -p, or on stdin").into());
    };
    let loaded = load(&args)?;
    let ids = ids(&args, &loaded, &text)?;
    let generated = answer(&loaded, ids, &settings, &mut Plain::new())?;
    let asked = args.stats == Stats::Json;
    Notes { quiet: args.quiet && !asked }.line(&closing::line(&generated, args.stats));
    if generated.finish.is_none() { Err(Quiet::Interrupted.into()) } else { Ok(()) }
}

/// Checks everything that can be checked before a model is loaded.
fn settings(args: &RunArgs) -> Result<Settings> {
    let speculation = &args.speculation;
    let no_drafter = args.models.model.is_some() && args.models.draft_model.is_none();
    if no_drafter && speculation.draft_block_size.is_some() {
        let usage = "--draft-block-size needs a drafter\nhint: name one with --draft-model";
        return Err(Usage(usage).into());
    }
    Ok(Settings {
        // Nothing here names a token, so any vocabulary will do.
        sampling: args.sampling.settings().validate(usize::MAX)?,
        max_tokens: args.max_tokens,
        width: speculation.draft_block_size,
        classic: speculation.no_draft,
    })
}

fn load(args: &RunArgs) -> Result<Loaded> {
    let (start, notes) = (Instant::now(), Notes { quiet: args.quiet });
    let name = args.models.model.as_deref().unwrap_or("the pair inside the program");
    notes.line(&format!("loading {name}"));
    let loaded = Loaded::load(&args.models, args.speculation.no_draft)?;
    let seconds = start.elapsed().as_secs_f64();
    notes.line(&format!("loaded {} in {seconds:.2} s", loaded.describe()));
    Ok(loaded)
}

fn ids(args: &RunArgs, loaded: &Loaded, text: &str) -> Result<Vec<TokenId>> {
    if args.raw {
        return prompt::raw(&loaded.text, text);
    }
    let mut messages: Vec<_> = args.system.iter().map(|system| prompt::message("system", system)).collect();
    messages.push(prompt::message("user", text));
    if let Some(ids) = prompt::chat(&loaded.text, &messages)? {
        return Ok(ids);
    }
    if args.system.is_some() {
        return Err(Usage("--system needs a chat template, and this model has none").into());
    }
    let notes = Notes { quiet: args.quiet };
    notes.line(&format!("{} has no chat template: the prompt is continued as it stands", loaded.name));
    prompt::raw(&loaded.text, text)
}
