//! One answer, from the ids of its prompt to the text on its way out.

use std::{io, ops::ControlFlow};

use anyhow::{Context, Result};
use mlxcel_core::{
    Width,
    sampling::{CheckedSettings, Decision},
    speculative::{Event, Generated, Request, Speculation, generate},
    text::{Channel, Piece, TextStream},
};

use crate::{args::RunArgs, error::Quiet, interrupt::Answering, load::Loaded, prompt::Prompt};

/// What an answer is made with.
pub(crate) struct Settings {
    pub(crate) sampling: CheckedSettings,
    pub(crate) max_tokens: usize,
    /// Rows of a block; `None` for what the drafter says.
    pub(crate) width: Option<Width>,
    pub(crate) classic: bool,
}

impl Settings {
    /// Checks the arguments as far as that needs no model.
    pub(crate) fn of(args: &RunArgs) -> Result<Self> {
        Ok(Self {
            // Nothing among them names a token, so any vocabulary will do.
            sampling: args.sampling.settings().validate(usize::MAX)?,
            max_tokens: args.max_tokens,
            width: args.speculation.draft_block_size,
            classic: args.speculation.no_draft,
        })
    }

    fn speculation(&self, loaded: &Loaded) -> Speculation {
        let declared = || loaded.drafter.as_ref().map(|drafter| drafter.spec().default_width);
        match self.width.or_else(declared) {
            _ if self.classic => Speculation::Off,
            Some(width) => Speculation::Fixed(width),
            None => Speculation::Fixed(Width::ONE),
        }
    }
}

/// Who had a token first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The drafter proposed it, and the target agreed.
    Accepted,
    /// The target: the first token, and the one that ends each round.
    Target,
}

/// Where the text of an answer goes.
pub(crate) trait Sink {
    /// Text that a token completes.
    fn text(&mut self, piece: &Piece, origin: Origin) -> io::Result<()>;

    /// The tokens of a round are there.
    fn flush(&mut self) -> io::Result<()>;

    /// The answer has ended, whole or not.
    fn end(&mut self) -> io::Result<()>;
}

/// An answer that was made.
pub(crate) struct Answered {
    /// `finish` is `None` if Ctrl-C stopped it.
    pub(crate) generated: Generated,
    /// Its text without the reasoning.
    pub(crate) content: String,
}

/// Makes an answer and writes it round by round.
pub(crate) fn answer(
    loaded: &Loaded,
    prompt: Prompt,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<Answered> {
    let request = Request {
        prompt: prompt.ids,
        sampling: settings.sampling.clone(),
        choice: 0,
        max_tokens: settings.max_tokens,
        min_tokens: 0,
        eos: loaded.text.model.eos.iter().collect(),
        watch: None,
        speculation: settings.speculation(loaded),
    };
    let mut writer = Writer { loaded, stream: prompt.stream, sink, tokens: 0, content: String::new() };
    let mut written = Ok(());
    let answering = Answering::start();
    let generated = generate(loaded.models(), request, &mut |event| {
        if let Event::Tokens { decisions, accepted, .. } = event {
            written = writer.round(decisions, accepted);
        }
        if written.is_err() || answering.is_stopped() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    drop(answering);
    written.and_then(|()| writer.end()).map_err(write_failed)?;
    let Writer { tokens, content, .. } = writer;
    match generated {
        Ok(generated) => Ok(Answered { generated, content }),
        Err(error) if tokens == 0 => Err(error.into()),
        // What is on stdout looks like an answer; it is not a whole one.
        Err(error) => Err(error).with_context(|| format!("the answer broke off after {tokens} tokens")),
    }
}

/// Tokens to text, and text to the sink.
struct Writer<'a> {
    loaded: &'a Loaded,
    stream: TextStream,
    sink: &'a mut dyn Sink,
    tokens: usize,
    content: String,
}

impl Writer<'_> {
    fn round(&mut self, decisions: &[Decision], accepted: usize) -> io::Result<()> {
        self.tokens += decisions.len();
        for (nth, Decision { token, .. }) in decisions.iter().enumerate() {
            // End tokens are no text, special or not.
            if self.loaded.text.model.eos.contains(*token) {
                continue;
            }
            let origin = if nth < accepted { Origin::Accepted } else { Origin::Target };
            let step = self.stream.push(&self.loaded.text.model.tokenizer, *token);
            self.write(&step.pieces, origin)?;
        }
        self.sink.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        let rest = self.stream.finish();
        self.write(&rest, Origin::Target)?;
        self.sink.end()
    }

    fn write(&mut self, pieces: &[Piece], origin: Origin) -> io::Result<()> {
        for piece in pieces {
            if piece.channel != Channel::Reasoning {
                self.content.push_str(&piece.text);
            }
            self.sink.text(piece, origin)?;
        }
        Ok(())
    }
}

fn write_failed(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Quiet::ReaderGone.into()
    } else {
        anyhow::Error::from(error).context("cannot write the answer")
    }
}
