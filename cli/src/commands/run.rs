//! `mlxcel run`.

use std::{
    io::{self, IsTerminal as _},
    time::Instant,
};

use anyhow::Result;
use mlxcel_core::{nn::set_threads, text::TemplateError};

use crate::{
    answer::{Settings, answer},
    args::{RunArgs, Stats},
    closing,
    error::{Quiet, Usage},
    interactive, interrupt,
    load::Loaded,
    logging,
    notes::Notes,
    prompt::{self, Prompt},
    screen::{Look, Screen},
};

/// Answers a prompt, or holds a conversation.
pub(crate) fn run(args: RunArgs) -> Result<()> {
    let notes = Notes { quiet: args.quiet };
    logging::init(args.quiet);
    interrupt::install();
    if let Some(threads) = args.threads {
        set_threads(threads);
    }
    let settings = Settings::of(&args)?;
    let Some(text) = prompt::read(args.prompt.clone(), args.raw)? else {
        if !io::stdout().is_terminal() {
            return Err(Usage("no prompt\nhint: give one with -p, or on stdin").into());
        }
        // `/set draft on` may come.
        let loaded = load(&args, false, notes)?;
        note_missing_template(&args, &loaded, notes)?;
        return interactive::converse(args, &loaded);
    };
    let loaded = load(&args, settings.classic, notes)?;
    note_missing_template(&args, &loaded, notes)?;
    let prompt = first_prompt(&args, &loaded, &text)?;
    let look = Look::of_stdout(args.speculation.show_speculation);
    let generated =
        answer(&loaded, prompt, &settings, &mut Screen::new(io::stdout().lock(), look))?.generated;
    if look.speculation {
        notes.line(look.legend());
    }
    // Who asks for JSON gets it in any case.
    let quiet = args.quiet && args.stats == Stats::Text;
    Notes { quiet }.line(&closing::line(&generated, args.stats));
    if generated.finish.is_none() { Err(Quiet::Interrupted.into()) } else { Ok(()) }
}

fn load(args: &RunArgs, classic: bool, notes: Notes) -> Result<Loaded> {
    let start = Instant::now();
    let name = args.models.model.as_deref().unwrap_or("the pair inside the program");
    notes.line(&format!("loading {name}"));
    let loaded = Loaded::load(&args.models, args.speculation.draft_block_size, classic)?;
    let seconds = start.elapsed().as_secs_f64();
    notes.line(&format!("loaded {} in {seconds:.2} s", loaded.describe()));
    Ok(loaded)
}

fn note_missing_template(args: &RunArgs, loaded: &Loaded, notes: Notes) -> Result<()> {
    let missing = matches!(loaded.text.model.template, Err(TemplateError::Missing));
    if args.raw || !missing {
        return Ok(());
    }
    if args.system.is_some() {
        return Err(Usage("--system needs a chat template, and this model has none").into());
    }
    notes.line(&format!("{} has no chat template: the prompt is continued as it stands", loaded.name));
    Ok(())
}

fn first_prompt(args: &RunArgs, loaded: &Loaded, text: &str) -> Result<Prompt> {
    let mut messages: Vec<_> = args.system.iter().map(|system| prompt::message("system", system)).collect();
    messages.push(prompt::message("user", text));
    let chat = if args.raw { None } else { prompt::chat(&loaded.text, &messages)? };
    chat.map_or_else(|| prompt::raw(&loaded.text, text), Ok)
}
