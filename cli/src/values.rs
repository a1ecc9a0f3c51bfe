//! Values of flags, read with a message that says what would be right.

use mlxcel_core::{
    Width,
    family::{DraftKind, StartError},
    sampling::Seed,
};

/// A width: rows of a block, at least 1. The drafter has the other limit.
pub(crate) fn width(text: &str) -> Result<Width, String> {
    let expected = || "expected a number of rows, from 1 to the drafter's trained width".to_owned();
    text.parse().ok().and_then(Width::new).ok_or_else(expected)
}

/// A kind of drafting, in upper or lower case.
pub(crate) fn draft_kind(text: &str) -> Result<DraftKind, StartError> {
    text.parse()
}

/// A number of tokens, at least 1.
pub(crate) fn tokens(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&tokens| tokens > 0)
        .ok_or_else(|| "expected a number of tokens, at least 1".to_owned())
}

/// A number of threads, 1 to 1024.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    let fits = |threads: &usize| (1..=1024).contains(threads);
    text.parse().ok().filter(fits).ok_or_else(|| "expected a number of threads, 1 to 1024".to_owned())
}

/// How many tokens top-k keeps.
pub(crate) fn top_k(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number of tokens, 0 or more".to_owned())
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
    fn widths_and_token_counts_start_at_one() {
        assert_eq!(width("1"), Ok(Width::ONE));
        assert_eq!(tokens("1"), Ok(1));
        for odd in ["0", "-1", "1e9", "", "99999999999999999999"] {
            assert!(width(odd).is_err() && tokens(odd).is_err(), "{odd}");
        }
    }
}
