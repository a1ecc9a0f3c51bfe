//! Settings that `/set` changes.

use std::str::FromStr;

use mlxcel_core::{
    TokenId,
    family::{DrafterSpec, check_width},
};
use serde_json::Value;

use crate::{
    args::{DraftWidth, RunArgs},
    flags, values,
};

/// The word for a setting that is left out.
const NONE: &str = "none";

/// Shows all settings as `/set` takes them.
pub(super) fn show(args: &RunArgs) -> String {
    let lines: Vec<_> = all(args).into_iter().map(|(name, value)| format!("{name} {value}\n")).collect();
    lines.concat()
}

/// Shows one setting, or says that there is none of that name.
pub(super) fn show_one(args: &RunArgs, name: &str) -> String {
    match all(args).into_iter().find(|(known, _)| *known == name) {
        Some((name, value)) => format!("{name} {value}\n"),
        None => format!("{}\n", unknown(name)),
    }
}

fn unknown(name: &str) -> String {
    format!("{name}: no such setting; /help names them")
}

/// Names and values, in the order of the help text.
fn all(args: &RunArgs) -> Vec<(&'static str, String)> {
    let sampling = &args.sampling;
    let or = |value: Option<String>, none: &str| value.unwrap_or_else(|| none.to_owned());
    let on = |on: bool| if on { "on" } else { "off" }.to_owned();
    let width = args.speculation.draft_block_size.map(|width| width.to_string());
    vec![
        ("temp", sampling.temp.to_string()),
        ("top-p", sampling.top_p.to_string()),
        ("top-k", sampling.top_k.to_string()),
        ("min-p", sampling.min_p.to_string()),
        ("repetition-penalty", sampling.repetition_penalty.to_string()),
        ("presence-penalty", sampling.presence_penalty.to_string()),
        ("frequency-penalty", sampling.frequency_penalty.to_string()),
        ("logit-bias", biases(&sampling.logit_bias)),
        ("seed", or(sampling.seed.map(|seed| seed.to_string()), "drawn for each answer")),
        ("max-tokens", args.max_tokens.to_string()),
        ("min-tokens", args.min_tokens.to_string()),
        (
            "stop",
            if args.stop.is_empty() { NONE.to_owned() } else { Value::from(args.stop.clone()).to_string() },
        ),
        ("ignore-eos", on(args.ignore_eos)),
        ("draft-block-size", or(width, "what the drafter says")),
        (
            "draft-width",
            if args.speculation.draft_width == DraftWidth::Fixed { "fixed" } else { "adaptive" }.to_owned(),
        ),
        ("draft", on(!args.speculation.no_draft)),
    ]
}

fn biases(biases: &[(TokenId, f32)]) -> String {
    let all: Vec<_> = biases.iter().map(|(id, value)| format!("{id}={value}")).collect();
    if all.is_empty() { NONE.to_owned() } else { all.join(",") }
}

/// Changes one setting, or says why it stays as it is. Biases are for ids below `vocabulary`.
pub(super) fn set(
    args: &mut RunArgs,
    drafter: Option<&DrafterSpec>,
    vocabulary: usize,
    name: &str,
    value: &str,
) -> Result<(), String> {
    let refused = |why: String| format!("{name}: {value:?}: {why}");
    let mut changed = args.clone();
    let sampling = &mut changed.sampling;
    match name {
        "temp" => sampling.temp = number(value).map_err(refused)?,
        "top-p" => sampling.top_p = number(value).map_err(refused)?,
        "top-k" => sampling.top_k = values::count(value).map_err(refused)?,
        "min-p" => sampling.min_p = number(value).map_err(refused)?,
        "repetition-penalty" => sampling.repetition_penalty = number(value).map_err(refused)?,
        "presence-penalty" => sampling.presence_penalty = number(value).map_err(refused)?,
        "frequency-penalty" => sampling.frequency_penalty = number(value).map_err(refused)?,
        "logit-bias" if value == NONE => sampling.logit_bias.clear(),
        "logit-bias" => {
            sampling.logit_bias =
                value.split(',').map(values::logit_bias).collect::<Result<_, _>>().map_err(refused)?;
        }
        "seed" if value == NONE => sampling.seed = None,
        "seed" => sampling.seed = Some(values::seed(value).map_err(refused)?),
        "max-tokens" => changed.max_tokens = values::tokens(value).map_err(refused)?,
        "min-tokens" => changed.min_tokens = values::count(value).map_err(refused)?,
        "stop" => changed.stop = stops(value).map_err(refused)?,
        "ignore-eos" => changed.ignore_eos = switch(value).map_err(refused)?,
        "draft-block-size" => {
            let width = values::width(value).map_err(refused)?;
            let drafter = drafter.ok_or_else(|| refused("there is no drafter".to_owned()))?;
            check_width("draft-block-size", width, drafter).map_err(|error| error.to_string())?;
            changed.speculation.draft_block_size = Some(width);
        }
        "draft-width" => {
            changed.speculation.draft_width = match value {
                "adaptive" => DraftWidth::Adaptive,
                "fixed" => DraftWidth::Fixed,
                _ => return Err(refused("expected adaptive or fixed".to_owned())),
            };
        }
        "draft" => {
            let on = switch(value).map_err(refused)?;
            if on && drafter.is_none() {
                return Err(refused("there is no drafter".to_owned()));
            }
            changed.speculation.no_draft = !on;
        }
        _ => return Err(unknown(name)),
    }
    changed.answer().check(vocabulary).map_err(|error| flags::spelled_as_setting(&error))?;
    *args = changed;
    Ok(())
}

fn number<T: FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| "expected a number".to_owned())
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

/// A stop string as it stands, or several in a JSON list.
fn stops(value: &str) -> Result<Vec<String>, String> {
    match value {
        NONE => Ok(Vec::new()),
        list if list.starts_with('[') => serde_json::from_str(list)
            .map_err(|error| format!("expected a text, a JSON list of texts, or {NONE}: {error}")),
        text => Ok(vec![text.to_owned()]),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn args() -> RunArgs {
        match Cli::parse_from(["mlxcel", "run"]).command {
            Command::Run(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    /// What `/set` says, and what the setting is then.
    fn after(name: &str, value: &str) -> (Result<(), String>, String) {
        let mut args = args();
        let said = set(&mut args, None, 100, name, value);
        (said, show_one(&args, name))
    }

    #[test]
    fn every_setting_can_be_set_and_shown() {
        for (name, value) in [
            ("temp", "0.5"),
            ("top-p", "0.9"),
            ("top-k", "40"),
            ("min-p", "0.1"),
            ("repetition-penalty", "1.1"),
            ("presence-penalty", "-1"),
            ("frequency-penalty", "0.25"),
            ("logit-bias", "5=1.5,7=-100"),
            ("logit-bias", "none"),
            ("seed", "7"),
            ("max-tokens", "9"),
            ("min-tokens", "3"),
            ("stop", "none"),
            ("stop", r#"["a","b"]"#),
            ("ignore-eos", "on"),
            ("draft", "off"),
        ] {
            assert_eq!(after(name, value), (Ok(()), format!("{name} {value}\n")), "{name} {value}");
        }
        assert_eq!(after("stop", "END of it").1, "stop [\"END of it\"]\n");
        assert_eq!(after("seed", "none").1, "seed drawn for each answer\n");
        let names: Vec<_> = all(&args()).into_iter().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| super::super::command::HELP.contains(name)), "{names:?}");
    }

    #[test]
    fn a_bad_value_changes_nothing_and_is_one_line() {
        let mut all = Vec::new();
        for (name, value) in [
            ("temp", "hot"),
            ("temp", "nan"),
            ("top-p", "0"),
            ("top-k", "-1"),
            ("repetition-penalty", "0"),
            ("presence-penalty", "2.5"),
            ("frequency-penalty", "inf"),
            ("logit-bias", "5"),
            ("logit-bias", "-1=5"),
            ("logit-bias", "100=1"),
            ("logit-bias", "5=101"),
            ("seed", "1.5"),
            ("max-tokens", "0"),
            ("min-tokens", "257"),
            ("stop", "[1]"),
            ("stop", r#"[""]"#),
            ("ignore-eos", "yes"),
            ("draft-block-size", "4"),
            ("draft-width", "wide"),
            ("draft", "on"),
            ("temperature", "1"),
        ] {
            let (said, shown) = after(name, value);
            let said = said.unwrap_err();
            assert_eq!(said.lines().count(), 1, "{said}");
            assert_eq!(shown, show_one(&args(), name));
            all.push(format!("{name} {value}: {said}"));
        }
        insta::assert_snapshot!(all.join("\n"));
    }
}
