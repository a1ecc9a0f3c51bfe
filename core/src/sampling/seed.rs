//! The seed of a request.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// 64 bits that fix the noise of a request: the same seed gives the same tokens on the same backend.
///
/// Any JSON integer of 64 bits is a seed by its bits, so `-1` and `18446744073709551615` are the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// 64 random bits, for a request that names no seed. Draw it once, at admission, and report it.
    ///
    /// The bits come from the randomness that the standard library keys its hash maps with.
    pub fn random() -> Self {
        let mut hasher = RandomState::new().build_hasher();
        // One thread's keys differ by a counter only; SipHash spreads it over all 64 bits.
        hasher.write_u64(0);
        Self(hasher.finish())
    }
}

impl From<u64> for Seed {
    fn from(bits: u64) -> Self {
        Self(bits)
    }
}

impl From<i64> for Seed {
    fn from(value: i64) -> Self {
        Self(value.cast_unsigned())
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Integer;

        impl Visitor<'_> for Integer {
            type Value = Seed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a seed: an integer from -9223372036854775808 to 18446744073709551615")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Seed, E> {
                Ok(Seed::from(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Seed, E> {
                Ok(Seed::from(value))
            }
        }

        deserializer.deserialize_any(Integer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Seed, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn json_integers_are_taken_by_their_bits() {
        assert_eq!(parse("0"), Ok(Seed(0)));
        assert_eq!(parse("-1"), Ok(Seed(u64::MAX)));
        assert_eq!(parse("18446744073709551615"), Ok(Seed(u64::MAX)));
        assert_eq!(parse("-9223372036854775808"), Ok(Seed(1 << 63)));
        assert_eq!(parse("9223372036854775808"), Ok(Seed(1 << 63)));
    }

    #[test]
    fn anything_else_is_refused() {
        for json in ["1.5", "1.0", "1e3", "18446744073709551616", "\"7\"", "true", "[1]"] {
            assert!(parse(json).is_err(), "{json} was taken as a seed");
        }
        insta::assert_snapshot!(
            parse("0.5").unwrap_err(),
            @"invalid type: floating point `0.5`, expected a seed: an integer from -9223372036854775808 to 18446744073709551615 at line 1 column 3"
        );
    }

    #[test]
    fn random_seeds_differ_in_all_bits() {
        let seeds: Vec<u64> = (0..64).map(|_| Seed::random().0).collect();
        let changed = seeds.windows(2).fold(0, |bits, pair| bits | (pair[0] ^ pair[1]));
        assert_eq!(changed, u64::MAX);
    }
}
