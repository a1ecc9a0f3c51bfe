//! One answer, from the ids of its prompt to the text on its way out.

use std::{io, ops::ControlFlow};

use anyhow::{Context, Result};
use mlxcel_core::{
    TokenId, Width,
    sampling::{CheckedSettings, Decision},
    speculative::{Event, Generated, Request, Speculation, generate},
    text::{Detokenizer, SpecialTokens},
};

use crate::{error::Quiet, interrupt::Answering, load::Loaded};

/// What an answer is made with.
pub(crate) struct Settings {
    pub(crate) sampling: CheckedSettings,
    pub(crate) max_tokens: usize,
    /// Rows of a block; `None` for what the drafter says.
    pub(crate) width: Option<Width>,
    pub(crate) classic: bool,
}

impl Settings {
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
    /// The text that a token completes; may be empty.
    fn token(&mut self, token: TokenId, text: &str, origin: Origin) -> io::Result<()>;

    /// The tokens of a round are there.
    fn flush(&mut self) -> io::Result<()>;

    /// The answer has ended, whole or not.
    fn end(&mut self) -> io::Result<()>;
}

/// Makes an answer and writes it round by round. `finish` of the result is `None` if Ctrl-C stopped it.
pub(crate) fn answer(
    loaded: &Loaded,
    prompt: Vec<TokenId>,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<Generated> {
    let request = Request {
        prompt,
        sampling: settings.sampling.clone(),
        choice: 0,
        max_tokens: settings.max_tokens,
        min_tokens: 0,
        eos: loaded.text.eos.iter().collect(),
        watch: None,
        speculation: settings.speculation(loaded),
    };
    let answering = Answering::start();
    let mut detokenizer = Detokenizer::new(SpecialTokens::Skip);
    let mut written = Ok(());
    let mut tokens = 0;
    let generated = generate(loaded.models(), request, &mut |event| {
        if let Event::Tokens { decisions, accepted, .. } = event {
            tokens += decisions.len();
            written = write_round(loaded, decisions, accepted, &mut detokenizer, sink);
        }
        if written.is_err() || answering.is_stopped() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    drop(answering);
    written.and_then(|()| end(&mut detokenizer, sink)).map_err(write_failed)?;
    match generated {
        Err(error) if tokens > 0 => {
            Err(error).with_context(|| format!("the answer broke off after {tokens} tokens"))
        }
        other => Ok(other?),
    }
}

fn write_round(
    loaded: &Loaded,
    decisions: &[Decision],
    accepted: usize,
    detokenizer: &mut Detokenizer,
    sink: &mut dyn Sink,
) -> io::Result<()> {
    for (nth, decision) in decisions.iter().enumerate() {
        let token = decision.token;
        // End tokens are no text, special or not.
        if loaded.text.eos.contains(token) {
            continue;
        }
        let origin = if nth < accepted { Origin::Accepted } else { Origin::Target };
        let text = detokenizer.push(&loaded.text.tokenizer, token);
        sink.token(token, &text, origin)?;
    }
    sink.flush()
}

fn end(detokenizer: &mut Detokenizer, sink: &mut dyn Sink) -> io::Result<()> {
    // Bytes that never became a character.
    let rest = detokenizer.flush();
    if !rest.is_empty() {
        sink.token(TokenId(0), &rest, Origin::Target)?;
    }
    sink.end()
}

fn write_failed(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Quiet::ReaderGone.into()
    } else {
        anyhow::Error::from(error).context("cannot write the answer")
    }
}
