//! Values of flags, read with a message that says what would be right.

use std::ffi::OsString;

use clap::builder::{OsStringValueParser, TypedValueParser};
use mlxcel_core::{
    TokenId, Width,
    family::{DraftKind, StartError},
    nn::Executor,
    sampling::{Seed, bias_id},
};
use serde_json::{Map, Value};

/// A model's name: a path or `owner/name`.
pub(crate) fn model() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().try_map(model_name)
}

fn model_name(name: OsString) -> Result<String, &'static str> {
    match name.into_string() {
        Ok(name) if name.is_empty() => Err("it is empty, expected a folder or owner/name"),
        Ok(name) => Ok(name),
        Err(_) => Err("the name is not UTF-8: rename the folder, or link to it by another name"),
    }
}

/// A width: rows of a block, at least 1. The drafter has the other limit.
pub(crate) fn width(text: &str) -> Result<Width, String> {
    let expected = || "expected a number of rows, from 1 to the drafter's trained width".to_owned();
    text.parse().ok().and_then(Width::new).ok_or_else(expected)
}

/// A kind of drafting, in upper or lower case.
pub(crate) fn draft_kind(text: &str) -> Result<DraftKind, StartError> {
    text.parse()
}

/// An executor, by its name.
pub(crate) fn executor(text: &str) -> Result<Executor, String> {
    let known = [Executor::Cpu, Executor::MLX_F32, Executor::MLX_BF16];
    let found = known.into_iter().find(|executor| executor.name() == text);
    found.ok_or_else(|| "expected cpu, mlx-f32 or mlx-bf16".to_owned())
}

/// A number of tokens, at least 1.
pub(crate) fn tokens(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&tokens| tokens > 0)
        .ok_or_else(|| "expected a number of tokens, at least 1".to_owned())
}

/// A number of MiB, given back in bytes.
pub(crate) fn mebibytes(text: &str) -> Result<usize, String> {
    let fits = |mib: &usize| (1..=1 << 24).contains(mib);
    let expected = || "expected a number of MiB, 1 to 16777216".to_owned();
    text.parse().ok().filter(fits).map(|mib| mib << 20).ok_or_else(expected)
}

/// A number of something, 1 to a million.
pub(crate) fn several(text: &str) -> Result<usize, String> {
    let fits = |count: &usize| (1..=1_000_000).contains(count);
    text.parse().ok().filter(fits).ok_or_else(|| "expected a number from 1 to 1000000".to_owned())
}

/// A number of threads, 1 to 1024.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    let fits = |threads: &usize| (1..=1024).contains(threads);
    text.parse().ok().filter(fits).ok_or_else(|| "expected a number of threads, 1 to 1024".to_owned())
}

/// A time of at least a second.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let fits = |seconds: &u64| (1..=1_000_000).contains(seconds);
    text.parse().ok().filter(fits).ok_or_else(|| "expected a number of seconds, at least 1".to_owned())
}

/// A number of tokens.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number of tokens, 0 or more".to_owned())
}

/// `ID=VALUE`: what is added to the logit of a token.
pub(crate) fn logit_bias(text: &str) -> Result<(TokenId, f32), String> {
    let (id, value) = text.split_once('=').ok_or("expected ID=VALUE")?;
    let id = bias_id(id).map_err(|error| error.to_string())?;
    let value = value.parse().map_err(|_| format!("expected a number after {id}=, not {value:?}"))?;
    Ok((id, value))
}

/// A JSON object.
pub(crate) fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err("expected a JSON object".to_owned()),
        Err(error) => Err(format!("expected a JSON object: {error}")),
    }
}

/// A seed: any integer of 64 bits, signed or not, by its bits.
pub(crate) fn seed(text: &str) -> Result<Seed, String> {
    let unsigned = text.parse::<u64>().map(Seed::from);
    unsigned
        .or_else(|_| text.parse::<i64>().map(Seed::from))
        .map_err(|_| format!("expected an integer from {} to {}", i64::MIN, u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_an_integer_by_its_bits() {
        assert_eq!(seed("-1"), seed("18446744073709551615"));
        assert_eq!(seed("7"), Ok(Seed(7)));
        for odd in ["", "1.5", "1e3", "18446744073709551616", "-9223372036854775809"] {
            assert!(seed(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_bias_names_a_token_and_a_number() {
        assert_eq!(logit_bias("5=-1.5"), Ok((TokenId(5), -1.5)));
        for odd in ["", "5", "=1", "5=", "5=x", "-1=5", "1.5=5", "abc=5", "5 = 1", "99999999999=1"] {
            assert!(logit_bias(odd).is_err(), "{odd}");
        }
        // Ranges are the core's to check: a NaN comes through.
        assert!(logit_bias("5=nan").unwrap().1.is_nan());
    }

    #[test]
    fn an_object_is_nothing_else() {
        assert_eq!(object(r#"{"a": 1}"#).unwrap()["a"], 1);
        for odd in ["", "[]", "1", "{", "{\"a\": 1} x"] {
            assert!(object(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn sizes_do_not_wrap() {
        assert_eq!(mebibytes("1"), Ok(1 << 20));
        for odd in ["0", "-1", "17592186044416", "99999999999999999999"] {
            assert!(mebibytes(odd).is_err() && several(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn widths_and_token_counts_start_at_one() {
        assert_eq!(width("1"), Ok(Width::ONE));
        assert_eq!(tokens("1"), Ok(1));
        for odd in ["0", "-1", "1e9", "", "99999999999999999999"] {
            assert!(width(odd).is_err() && tokens(odd).is_err(), "{odd}");
        }
    }
}
