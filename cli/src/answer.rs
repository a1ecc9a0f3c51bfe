//! One answer, from the ids of its prompt to the text on its way out.

use std::{io, ops::ControlFlow};

use anyhow::{Context, Result};
use mlxcel_core::{
    Width,
    sampling::{Decision, TokenLogprob},
    speculative::{CheckedAnswer, Event, Generated, Speculation, generate, width::ConfidenceUse},
    text::{Channel, Piece, TextStream, Tokenizer},
};
use serde_json::{Value, json};

use crate::{
    args::{DraftWidth, RunArgs},
    error::Quiet,
    interrupt::Answering,
    load::Loaded,
    prompt::Prompt,
};

/// What an answer is made with.
pub(crate) struct Settings {
    pub(crate) answer: CheckedAnswer,
    /// Rows of a block at most; `None` for what the drafter says.
    pub(crate) width: Option<Width>,
    /// Whether all blocks have that width.
    pub(crate) fixed: bool,
    pub(crate) classic: bool,
    pub(crate) confidence: ConfidenceUse,
}

impl Settings {
    /// Checks the arguments for a model of `vocabulary` ids. A vocabulary without end checks all that needs no model.
    pub(crate) fn of(args: &RunArgs, vocabulary: usize) -> Result<Self> {
        Ok(Self {
            answer: args.answer().check(vocabulary)?,
            width: args.speculation.draft_block_size,
            fixed: args.speculation.draft_width == DraftWidth::Fixed,
            classic: args.speculation.no_draft,
            confidence: args.speculation.draft_confidence.into(),
        })
    }

    fn speculation(&self, loaded: &Loaded) -> Speculation {
        if !self.fixed && !self.classic {
            return loaded.adaptive(self.width, self.confidence);
        }
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
    /// Log-probabilities of its tokens, if they were asked for.
    pub(crate) logprobs: Vec<Value>,
}

/// Makes an answer and writes it round by round.
pub(crate) fn answer(
    loaded: &Loaded,
    prompt: Prompt,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<Answered> {
    let Prompt { ids, stream } = prompt;
    let speculation = settings.speculation(loaded);
    let request = settings.answer.request(ids, &loaded.text.model, &stream, 0, speculation);
    let mut writer = Writer { loaded, stream, sink, tokens: 0, content: String::new(), logprobs: Vec::new() };
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
    let Writer { tokens, content, logprobs, .. } = writer;
    match generated {
        Ok(generated) => Ok(Answered { generated, content, logprobs }),
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
    logprobs: Vec<Value>,
}

impl Writer<'_> {
    fn round(&mut self, decisions: &[Decision], accepted: usize) -> io::Result<()> {
        self.tokens += decisions.len();
        let tokenizer = &self.loaded.text.model.tokenizer;
        self.logprobs.extend(decisions.iter().filter_map(|decision| logprobs(tokenizer, decision)));
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

/// Token, log-probability, and the likeliest tokens in its place.
fn logprobs(tokenizer: &Tokenizer, decision: &Decision) -> Option<Value> {
    let one = |of: &TokenLogprob| {
        let bytes = tokenizer.bytes(of.token).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        json!({"id": of.token.0, "token": text, "bytes": bytes, "logprob": of.logprob})
    };
    let logprobs = decision.logprobs.as_ref()?;
    let mut value = one(&logprobs.emitted);
    value["top"] = logprobs.top.iter().map(one).collect();
    Some(value)
}

fn write_failed(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Quiet::ReaderGone.into()
    } else {
        anyhow::Error::from(error).context("cannot write the answer")
    }
}
