//! `mlxcel run`.

use std::{
    io::{self, IsTerminal as _},
    time::Instant,
};

use anyhow::Result;
use mlxcel_core::{nn::set_threads, text::TemplateError};
use serde_json::Value;

use crate::{
    answer::{Settings, answer},
    args::{RunArgs, Stats},
    closing,
    error::{Quiet, Usage},
    exactness, interactive, interrupt,
    learning::Learning,
    load::Loaded,
    logging,
    notes::Notes,
    prompt::{self, Beside, Prompt},
    screen::{Look, Screen},
};

/// Answers a prompt, or holds a conversation.
pub(crate) fn run(args: RunArgs) -> Result<()> {
    let notes = Notes { quiet: args.quiet };
    logging::init(args.quiet);
    interrupt::install();
    check(&args)?;
    if let Some(threads) = args.threads {
        set_threads(threads);
    }
    // What is wrong with the flags is said before anything is loaded; ids wait for the vocabulary.
    let classic = Settings::of(&args, usize::MAX)?.classic;
    let tools = args.tools.as_deref().map(prompt::tools).transpose()?.unwrap_or_default();
    let Some(text) = prompt::read(&args)? else {
        if !io::stdout().is_terminal() {
            return Err(Usage::new("no prompt\nhint: give one with -p, or on stdin").into());
        }
        // `/set draft on` may come.
        let (loaded, mut learning) = load(&args, false, notes)?;
        note_missing_template(&args, &loaded, notes)?;
        let left = interactive::converse(args, tools, &loaded);
        learning.keep();
        return left;
    };
    let (loaded, mut learning) = load(&args, classic, notes)?;
    note_missing_template(&args, &loaded, notes)?;
    let settings = Settings::of(&args, loaded.vocabulary.end())?;
    let prompt = first_prompt(&args, &tools, &settings, &loaded, &text)?;
    let look = Look::of_stdout(args.speculation.show_speculation);
    let answered = answer(&loaded, prompt, &settings, &mut Screen::new(io::stdout().lock(), look))?;
    learning.keep();
    if look.speculation {
        notes.line(look.legend());
    }
    // Who asks for JSON gets it in any case.
    let quiet = args.quiet && args.stats == Stats::Text;
    Notes { quiet }.line(&closing::line(&answered, args.stats));
    if answered.generated.finish.is_none() { Err(Quiet::Interrupted.into()) } else { Ok(()) }
}

/// What the flags cannot say of themselves.
fn check(args: &RunArgs) -> Result<()> {
    if args.sampling.logprobs.is_some() && args.stats == Stats::Text {
        return Err(Usage::new("--logprobs needs --stats json, which has a place for them").into());
    }
    Ok(())
}

fn load(args: &RunArgs, classic: bool, notes: Notes) -> Result<(Loaded, Learning)> {
    let start = Instant::now();
    let name = args.models.model.as_deref().unwrap_or("the pair inside the program");
    notes.line(&format!("loading {name}"));
    let width = args.speculation.draft_block_size;
    let mut loaded = Loaded::load(&args.models, &args.exactness, width, args.threads, classic)?;
    let seconds = start.elapsed().as_secs_f64();
    notes.line(&format!("loaded {} in {seconds:.2} s", loaded.describe()));
    if let Some(note) = exactness::note(&loaded.gate) {
        notes.line(&note);
    }
    let mut learning = Learning::open(&args.speculation.evidence, loaded.key.clone());
    loaded.evidence = learning.evidence();
    Ok((loaded, learning))
}

fn note_missing_template(args: &RunArgs, loaded: &Loaded, notes: Notes) -> Result<()> {
    let missing = matches!(loaded.text.model.template, Err(TemplateError::Missing));
    if args.raw || !missing {
        return Ok(());
    }
    let needs = [
        ("--system", args.system.is_some()),
        ("--tools", args.tools.is_some()),
        ("--chat-template-kwargs", args.chat_template_kwargs.is_some()),
    ];
    if let Some((flag, _)) = needs.into_iter().find(|(_, given)| *given) {
        return Err(Usage::new(format!("{flag} needs a chat template, and this model has none")).into());
    }
    notes.line(&format!("{} has no chat template: the prompt is continued as it stands", loaded.name));
    Ok(())
}

fn first_prompt(
    args: &RunArgs,
    tools: &[Value],
    settings: &Settings,
    loaded: &Loaded,
    text: &str,
) -> Result<Prompt> {
    let mut messages: Vec<_> = args.system.iter().map(|system| prompt::message("system", system)).collect();
    messages.push(prompt::message("user", text));
    let stops = || settings.answer.stops();
    let beside = Beside { tools, kwargs: args.chat_template_kwargs.as_ref() };
    let chat = if args.raw { None } else { prompt::chat(&loaded.text, &messages, beside, stops())? };
    chat.map_or_else(|| prompt::raw(&loaded.text, text, stops()), Ok)
}
