//! Settings that `/set` changes.

use std::{fmt::Display, str::FromStr};

use mlxcel_core::family::{DrafterSpec, check_width};

use crate::{args::RunArgs, values};

/// Shows the settings as `/set` takes them.
pub(super) fn show(args: &RunArgs) -> String {
    let sampling = &args.sampling;
    let or = |value: Option<String>, none: &str| value.unwrap_or_else(|| none.to_owned());
    let width = or(args.speculation.draft_block_size.map(|width| width.to_string()), "what the drafter says");
    format!(
        "temp {}\ntop-p {}\ntop-k {}\nmin-p {}\nseed {}\nmax-tokens {}\ndraft-block-size {width}\ndraft {}\n",
        sampling.temp,
        sampling.top_p,
        sampling.top_k,
        sampling.min_p,
        or(sampling.seed.map(|seed| seed.to_string()), "drawn for each answer"),
        args.max_tokens,
        if args.speculation.no_draft { "off" } else { "on" },
    )
}

/// Changes one setting, or says why it stays as it is.
pub(super) fn set(
    args: &mut RunArgs,
    drafter: Option<&DrafterSpec>,
    name: &str,
    value: &str,
) -> Result<(), String> {
    let refused = |why: String| format!("{name}: {value:?}: {why}");
    let mut changed = args.clone();
    match name {
        "temp" => changed.sampling.temp = number(value).map_err(refused)?,
        "top-p" => changed.sampling.top_p = number(value).map_err(refused)?,
        "top-k" => changed.sampling.top_k = values::top_k(value).map_err(refused)?,
        "min-p" => changed.sampling.min_p = number(value).map_err(refused)?,
        "seed" => changed.sampling.seed = Some(values::seed(value).map_err(refused)?),
        "max-tokens" => changed.max_tokens = values::tokens(value).map_err(refused)?,
        "draft-block-size" => {
            let width = values::width(value).map_err(refused)?;
            let drafter = drafter.ok_or_else(|| refused("there is no drafter".to_owned()))?;
            check_width("draft-block-size", width, drafter).map_err(|error| error.to_string())?;
            changed.speculation.draft_block_size = Some(width);
        }
        "draft" => match value {
            "on" if drafter.is_none() => return Err(refused("there is no drafter".to_owned())),
            "on" | "off" => changed.speculation.no_draft = value == "off",
            _ => return Err(refused("expected on or off".to_owned())),
        },
        _ => return Err(format!("{name}: no such setting; /help names them")),
    }
    changed.sampling.settings().validate(usize::MAX).map_err(|error| error.to_string())?;
    *args = changed;
    Ok(())
}

fn number<T: FromStr<Err: Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}
