//! The logits of a scripted pair.

use mlxcel_core::TokenId;

/// Logits as a function of the history, for the target and for a drafter that agrees with it now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// Tells scripts apart.
    pub seed: u64,
    /// Ids of the vocabulary, at most 64.
    pub vocab: usize,
    /// Of 100 histories, those for which the drafter has the target's own logits.
    pub agreement: u64,
}

/// Steps between the lowest and the highest logit: few enough for ties.
const LEVELS: u64 = 48;

impl Script {
    /// The target's logits `[vocab]` for the token after `history`.
    pub fn target(&self, history: &[TokenId]) -> Vec<f32> {
        self.row(self.digest(history))
    }

    /// The drafter's logits `[vocab]` for the token after `history`.
    pub fn drafter(&self, history: &[TokenId]) -> Vec<f32> {
        let digest = self.digest(history);
        let agrees = mix(digest ^ 0xA5A5) % 100 < self.agreement;
        self.row(if agrees { digest } else { mix(digest ^ 0x5A5A) })
    }

    fn digest(&self, history: &[TokenId]) -> u64 {
        history.iter().fold(mix(self.seed), |digest, token| mix(digest ^ u64::from(token.0)))
    }

    /// Logits from −4 to about 4, many of them equal.
    fn row(&self, digest: u64) -> Vec<f32> {
        let level = |id: usize| mix(digest.wrapping_add(id as u64)) % LEVELS;
        (0..self.vocab).map(|id| level(id) as f32 / 6.0 - 4.0).collect()
    }
}

/// SplitMix64's finaliser.
fn mix(bits: u64) -> u64 {
    let z = bits.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
