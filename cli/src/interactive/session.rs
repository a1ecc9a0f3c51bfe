//! The loop: a message in, an answer out, and what the commands do.

use std::io;

use anyhow::Result;
use serde_json::Value;

use super::{
    command::{HELP, Input, parse},
    editor::{Editor, Read},
    settings,
};
use crate::{
    answer::{Answered, Settings, answer},
    args::{RunArgs, Stats},
    closing,
    error::{self, Quiet},
    load::Loaded,
    notes::to_stderr,
    prompt::{self, Beside, Prompt},
    screen::{Look, Screen},
};

/// A conversation until the user leaves.
pub(crate) fn converse(args: RunArgs, tools: Vec<Value>, loaded: &Loaded) -> Result<()> {
    let mut editor = Editor::new()?;
    let mut session = Session { args, tools, loaded, messages: Vec::new(), last: None };
    to_stderr("/help lists the commands, /exit or Ctrl-D leaves\n");
    if session.args.speculation.show_speculation {
        to_stderr(&format!("{}\n", Look::of_stdout(true).legend()));
    }
    let left = loop {
        match editor.read() {
            Ok(Read::End) => break Ok(()),
            Ok(Read::Garbled) => to_stderr("that is no UTF-8, and was dropped\n"),
            Ok(Read::Dropped) => to_stderr("/exit or Ctrl-D leaves\n"),
            Ok(Read::Message(text)) => match parse(&text) {
                Input::Exit => break Ok(()),
                input => match session.handle(&input) {
                    Err(error) if error.is::<Quiet>() => break Err(error),
                    // The conversation goes on.
                    Err(error) => to_stderr(&error::render(&error)),
                    Ok(()) => {}
                },
            },
            Err(error) => break Err(error),
        }
    };
    editor.save();
    left
}

struct Session<'a> {
    /// As the user set them.
    args: RunArgs,
    /// Tools that the model is shown.
    tools: Vec<Value>,
    loaded: &'a Loaded,
    /// User and assistant in turn; the system message is not among them.
    messages: Vec<Value>,
    last: Option<Answered>,
}

impl Session<'_> {
    fn handle(&mut self, input: &Input<'_>) -> Result<()> {
        match input {
            Input::Message(text) => return self.reply(text),
            Input::Help => to_stderr(&format!("{HELP}\n")),
            Input::Clear => self.messages.clear(),
            Input::ShowSystem => {
                to_stderr(&format!("{}\n", self.args.system.as_deref().unwrap_or("no system message")));
            }
            Input::System(text) => {
                self.args.system = Some((*text).to_owned());
                self.messages.clear();
            }
            Input::ShowSettings => to_stderr(&settings::show(&self.args)),
            Input::Set { name, value } => {
                let drafter = self.loaded.drafter.as_ref().map(|drafter| drafter.spec());
                let vocabulary = self.loaded.vocabulary.end();
                if let Err(why) = settings::set(&mut self.args, drafter, vocabulary, name, value) {
                    to_stderr(&format!("{why}\n"));
                }
            }
            Input::Stats => {
                let line = self.last.as_ref().map(|last| closing::line(last, Stats::Text));
                to_stderr(&format!("{}\n", line.as_deref().unwrap_or("no answer yet")));
            }
            Input::ShowSetting(name) => to_stderr(&settings::show_one(&self.args, name)),
            Input::Unknown(text) => to_stderr(&format!("{text}: no such command; /help lists them\n")),
            Input::Exit | Input::Empty => {}
        }
        Ok(())
    }

    fn reply(&mut self, text: &str) -> Result<()> {
        self.messages.push(prompt::message("user", text));
        let replied = Settings::of(&self.args, self.loaded.vocabulary.end()).and_then(|settings| {
            let prompt = self.prompt(text, &settings)?;
            let look = Look::of_stdout(self.args.speculation.show_speculation);
            answer(self.loaded, prompt, &settings, &mut Screen::new(io::stdout().lock(), look))
        });
        match replied {
            Ok(answered) => {
                self.messages.push(prompt::message("assistant", &answered.content));
                if answered.generated.finish.is_none() {
                    to_stderr("stopped\n");
                }
                self.last = Some(answered);
                Ok(())
            }
            // An answer that failed is no part of the conversation, nor is what it was to answer.
            Err(error) => {
                self.messages.pop();
                Err(error)
            }
        }
    }

    /// The whole conversation; the message alone where the model knows no conversations.
    fn prompt(&self, text: &str, settings: &Settings) -> Result<Prompt> {
        let stops = || settings.answer.stops();
        if !self.args.raw {
            let system = self.args.system.iter().map(|system| prompt::message("system", system));
            let messages: Vec<_> = system.chain(self.messages.iter().cloned()).collect();
            let beside = Beside { tools: &self.tools, kwargs: self.args.chat_template_kwargs.as_ref() };
            if let Some(prompt) = prompt::chat(&self.loaded.text, &messages, beside, stops())? {
                return Ok(prompt);
            }
        }
        prompt::raw(&self.loaded.text, text, stops())
    }
}
