//! Lines that begin with a slash.

/// What `/help` says.
pub(super) const HELP: &str = "\
/help                this text
/clear               start a new conversation
/system [TEXT]       set the system message, for a new conversation; without TEXT, show it
/set [NAME [VALUE]]  change a setting: temp, top-p, top-k, min-p, repetition-penalty, presence-penalty,
                     frequency-penalty, logit-bias (ID=VALUE,... or none), seed (a number or none), max-tokens,
                     min-tokens, stop (a text, a JSON list, or none), ignore-eos (on, off), draft-block-size,
                     draft-width (adaptive, fixed), draft (on, off); without VALUE, show it; without NAME, show them all
/stats               what the last answer cost, and what speculation gave
/exit                leave (also Ctrl-D)
A line that ends with \\ goes on in the next one; so does everything between \"\"\" and \"\"\".
Ctrl-C stops an answer.";

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input<'a> {
    /// A message to the model.
    Message(&'a str),
    Help,
    Clear,
    /// Show the system message.
    ShowSystem,
    System(&'a str),
    /// Show the settings.
    ShowSettings,
    /// Show one setting.
    ShowSetting(&'a str),
    Set {
        name: &'a str,
        value: &'a str,
    },
    Stats,
    Exit,
    /// Nothing, or blanks.
    Empty,
    /// No command, or one with the wrong number of words.
    Unknown(&'a str),
}

/// Reads what the user entered.
pub(super) fn parse(text: &str) -> Input<'_> {
    let Some(line) = text.strip_prefix('/') else {
        return if text.trim().is_empty() { Input::Empty } else { Input::Message(text) };
    };
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    match (name, rest) {
        ("help", "") => Input::Help,
        ("clear", "") => Input::Clear,
        ("system", "") => Input::ShowSystem,
        ("system", system) => Input::System(system),
        ("set", "") => Input::ShowSettings,
        ("set", setting) => match setting.split_once(char::is_whitespace) {
            Some((name, value)) => Input::Set { name, value: value.trim() },
            None => Input::ShowSetting(setting),
        },
        ("stats", "") => Input::Stats,
        ("exit", "") => Input::Exit,
        _ => Input::Unknown(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_messages() {
        for (text, expected) in [
            ("/help", Input::Help),
            ("/clear ", Input::Clear),
            ("/system", Input::ShowSystem),
            ("/system  be brief ", Input::System("be brief")),
            ("/set", Input::ShowSettings),
            ("/set temp  0.7", Input::Set { name: "temp", value: "0.7" }),
            ("/set temp", Input::ShowSetting("temp")),
            ("/stats", Input::Stats),
            ("/exit", Input::Exit),
            ("/exit now", Input::Unknown("/exit now")),
            ("/usr/bin is full", Input::Unknown("/usr/bin is full")),
            (" /help", Input::Message(" /help")),
            ("hi", Input::Message("hi")),
            (" \n", Input::Empty),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }
}
