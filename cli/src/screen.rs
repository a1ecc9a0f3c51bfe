//! The answer on stdout.

use std::io::{self, IsTerminal as _, Write};

use anstyle::{AnsiColor, Style};
use mlxcel_core::text::{Channel, Piece};

use crate::answer::{Origin, Sink};

/// How an answer looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether colours are understood and welcome.
    pub(crate) colours: bool,
    /// Whether reasoning is shown. The answer alone is left otherwise.
    pub(crate) reasoning: bool,
    /// Whether accepted tokens are told from the target's own.
    pub(crate) speculation: bool,
}

impl Look {
    /// The look for stdout: colours and reasoning are for terminals, and `NO_COLOR` is honoured.
    pub(crate) fn of_stdout(speculation: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colours: terminal && !no_colour, reasoning: terminal, speculation }
    }

    /// What the marks of [`Self::speculation`] mean.
    pub(crate) fn legend(self) -> &'static str {
        if self.colours {
            "green: proposed by the drafter and accepted; yellow: the target's own"
        } else {
            "⟦ ⟧: proposed by the drafter and accepted; the rest is the target's own"
        }
    }
}

/// Writes an answer as it comes; ends it with a newline.
pub(crate) struct Screen<W: Write> {
    out: W,
    look: Look,
    style: Style,
    /// Within the brackets that stand for colours.
    bracket: bool,
    last: Option<char>,
    channel: Option<Channel>,
}

impl<W: Write> Screen<W> {
    pub(crate) fn new(out: W, look: Look) -> Self {
        Self { out, look, style: Style::new(), bracket: false, last: None, channel: None }
    }

    fn restyle(&mut self, style: Style) -> io::Result<()> {
        if self.look.colours && style != self.style {
            write!(self.out, "{}{style}", self.style.render_reset())?;
            self.style = style;
        }
        Ok(())
    }

    fn bracket(&mut self, wanted: bool) -> io::Result<()> {
        if wanted != self.bracket {
            self.out.write_all(if wanted { "⟦" } else { "⟧" }.as_bytes())?;
            self.bracket = wanted;
        }
        Ok(())
    }

    /// Reasoning stands in a paragraph of its own.
    fn change_channel(&mut self, channel: Channel) -> io::Result<()> {
        let from_reasoning = self.channel == Some(Channel::Reasoning) && channel != Channel::Reasoning;
        let to_reasoning =
            channel == Channel::Reasoning && self.channel.is_some_and(|before| before != channel);
        if from_reasoning || to_reasoning {
            self.bracket(false)?;
            self.out.write_all(b"\n\n")?;
        }
        self.channel = Some(channel);
        Ok(())
    }
}

impl<W: Write> Sink for Screen<W> {
    fn text(&mut self, piece: &Piece, origin: Origin) -> io::Result<()> {
        let reasoning = piece.channel == Channel::Reasoning;
        if reasoning && !self.look.reasoning {
            return Ok(());
        }
        self.change_channel(piece.channel)?;
        let accepted = origin == Origin::Accepted;
        let colour = match origin {
            _ if !self.look.speculation => None,
            Origin::Accepted => Some(AnsiColor::Green.into()),
            Origin::Target => Some(AnsiColor::Yellow.into()),
        };
        let dimmed = if reasoning { Style::new().dimmed() } else { Style::new() };
        self.restyle(dimmed.fg_color(colour))?;
        if self.look.speculation && !self.look.colours {
            self.bracket(accepted)?;
        }
        self.last = piece.text.chars().last().or(self.last);
        self.out.write_all(piece.text.as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.bracket(false)?;
        self.restyle(Style::new())?;
        if self.last.is_some_and(|last| last != '\n') {
            self.out.write_all(b"\n")?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Channel::{Content, Reasoning};
    use Origin::{Accepted, Target};

    fn screen(look: Look, pieces: &[(Channel, &str, Origin)]) -> String {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, look);
        for (channel, text, origin) in pieces {
            let piece = Piece { channel: *channel, text: (*text).to_owned() };
            screen.text(&piece, *origin).unwrap();
        }
        screen.end().unwrap();
        String::from_utf8(out).unwrap()
    }

    const THOUGHT: [(Channel, &str, Origin); 5] = [
        (Reasoning, "so", Target),
        (Reasoning, " it is", Accepted),
        (Content, "yes", Accepted),
        (Content, ", it", Accepted),
        (Content, " is", Target),
    ];

    #[test]
    fn a_pipe_gets_the_answer_alone() {
        let look = Look { colours: false, reasoning: false, speculation: false };
        assert_eq!(screen(look, &THOUGHT), "yes, it is\n");
        assert_eq!(screen(look, &[(Content, "a\n", Target)]), "a\n");
        assert_eq!(screen(look, &[]), "");
    }

    #[test]
    fn a_terminal_gets_dimmed_reasoning_first() {
        let look = Look { colours: true, reasoning: true, speculation: false };
        assert_eq!(screen(look, &THOUGHT), "\x1b[2mso it is\n\n\x1b[0myes, it is\n");
    }

    #[test]
    fn accepted_tokens_are_marked_with_colours_or_brackets() {
        let mut look = Look { colours: true, reasoning: false, speculation: true };
        assert_eq!(screen(look, &THOUGHT), "\x1b[32myes, it\x1b[0m\x1b[33m is\x1b[0m\n");
        look.colours = false;
        assert_eq!(screen(look, &THOUGHT), "⟦yes, it⟧ is\n");
    }
}
