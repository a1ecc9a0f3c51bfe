//! What a request asks of the sampler, and the check of it.

use crate::TokenId;
use crate::sampling::Seed;

/// A temperature below this counts as 0: the noise could not change the order of any two f32 logits that differ.
const SMALLEST_TEMPERATURE: f32 = 1e-4;

/// Most alternatives that a request may ask log-probabilities for.
pub const MAX_LOGPROBS: usize = 20;

/// Most logit biases of a request. Each costs a step for every token.
pub const MAX_BIASES: usize = 1 << 18;

/// Settings of one request, as it came. The default samples the model's own distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingSettings {
    /// Factor of the noise, 0 to 1e6; 0 (and anything below 1e-4) is greedy.
    pub temperature: f32,
    /// Keep exactly this many best ids; 0 keeps all.
    pub top_k: usize,
    /// Keep the shortest prefix of the ranking with at least this mass, in (0, 1]; 1 keeps all.
    pub top_p: f64,
    /// Keep ids at least this probable relative to the best, in [0, 1]; 0 keeps all.
    pub min_p: f64,
    /// Divides positive and multiplies negative logits of ids in prompt or output, 0.01 to 100; 1 is off
    /// (Keskar et al. 2019, arXiv 1909.05858).
    pub repetition_penalty: f32,
    /// Subtracted once from the logit of each id in the output, −2 to 2; 0 is off.
    pub presence_penalty: f32,
    /// Subtracted from the logit of each id for every time it is in the output, −2 to 2; 0 is off.
    pub frequency_penalty: f32,
    /// Added to the logits of these ids, −100 to 100 each.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Fixes the noise; `None` draws one when the settings are checked.
    pub seed: Option<Seed>,
    /// `Some(n)`: log-probability of each emitted token and of the n (0 to 20) most probable ones.
    pub logprobs: Option<usize>,
}

impl Default for SamplingSettings {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: None,
            logprobs: None,
        }
    }
}

/// A setting that cannot be served.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// Negative, too large, infinite or NaN.
    #[error("temperature: {value} is out of range, expected 0 to 1000000 (0 is greedy)")]
    Temperature {
        /// What was asked.
        value: f32,
    },
    /// No mass, more than all of it, or NaN.
    #[error("top_p: {value} is out of range, expected more than 0 and at most 1 (1 is off)")]
    TopP {
        /// What was asked.
        value: f64,
    },
    /// Not a probability ratio.
    #[error("min_p: {value} is out of range, expected 0 to 1 (0 is off)")]
    MinP {
        /// What was asked.
        value: f64,
    },
    /// Not a usable factor.
    #[error("repetition_penalty: {value} is out of range, expected 0.01 to 100 (1 is off)")]
    RepetitionPenalty {
        /// What was asked.
        value: f32,
    },
    /// Outside the range of the OpenAI interface.
    #[error("presence_penalty: {value} is out of range, expected -2 to 2 (0 is off)")]
    PresencePenalty {
        /// What was asked.
        value: f32,
    },
    /// Outside the range of the OpenAI interface.
    #[error("frequency_penalty: {value} is out of range, expected -2 to 2 (0 is off)")]
    FrequencyPenalty {
        /// What was asked.
        value: f32,
    },
    /// Outside the range of the OpenAI interface.
    #[error("logit_bias: {value} for id {id} is out of range, expected -100 to 100")]
    LogitBias {
        /// The id it was for.
        id: TokenId,
        /// What was asked.
        value: f32,
    },
    /// A bias for an id that the model does not have.
    #[error("logit_bias: id {id} is outside the vocabulary, expected 0 to {last}")]
    LogitBiasId {
        /// The id.
        id: TokenId,
        /// The last id of the vocabulary.
        last: usize,
    },
    /// A bias for something that is no token id.
    #[error("logit_bias: {found:?} is no token id, expected an integer from 0")]
    LogitBiasKey {
        /// What stands in its place, shortened.
        found: String,
    },
    /// More biases than any vocabulary has use for.
    #[error("logit_bias: {found} entries, expected at most {MAX_BIASES}")]
    LogitBiasCount {
        /// Entries.
        found: usize,
    },
    /// More alternatives than are served.
    #[error("logprobs: {value} is out of range, expected 0 to {MAX_LOGPROBS}")]
    Logprobs {
        /// What was asked.
        value: usize,
    },
}

/// Settings that passed [`SamplingSettings::validate`]; the temperature is 0 or at least 1e-4 and the seed is known.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedSettings {
    settings: SamplingSettings,
    seed: Seed,
}

impl SamplingSettings {
    /// Checks every setting against its range and `vocabulary` ids, and draws a seed if there is none.
    pub fn validate(self, vocabulary: usize) -> Result<CheckedSettings, SettingsError> {
        // Each range is closed unless said otherwise, so NaN is in none of them.
        if !(0.0..=1e6).contains(&self.temperature) {
            return Err(SettingsError::Temperature { value: self.temperature });
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(SettingsError::TopP { value: self.top_p });
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return Err(SettingsError::MinP { value: self.min_p });
        }
        if !(0.01..=100.0).contains(&self.repetition_penalty) {
            return Err(SettingsError::RepetitionPenalty { value: self.repetition_penalty });
        }
        if !(-2.0..=2.0).contains(&self.presence_penalty) {
            return Err(SettingsError::PresencePenalty { value: self.presence_penalty });
        }
        if !(-2.0..=2.0).contains(&self.frequency_penalty) {
            return Err(SettingsError::FrequencyPenalty { value: self.frequency_penalty });
        }
        if self.logit_bias.len() > MAX_BIASES {
            return Err(SettingsError::LogitBiasCount { found: self.logit_bias.len() });
        }
        for &(id, value) in &self.logit_bias {
            if id.index() >= vocabulary {
                return Err(SettingsError::LogitBiasId { id, last: vocabulary.saturating_sub(1) });
            }
            if !(-100.0..=100.0).contains(&value) {
                return Err(SettingsError::LogitBias { id, value });
            }
        }
        if let Some(value) = self.logprobs.filter(|&value| value > MAX_LOGPROBS) {
            return Err(SettingsError::Logprobs { value });
        }
        let seed = self.seed.unwrap_or_else(Seed::random);
        let temperature = if self.temperature < SMALLEST_TEMPERATURE { 0.0 } else { self.temperature };
        Ok(CheckedSettings { settings: Self { temperature, ..self }, seed })
    }
}

/// The token id that a logit bias is for, as clients write it: digits and nothing else.
pub fn bias_id(text: &str) -> Result<TokenId, SettingsError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let id = if digits { text.parse().ok() } else { None };
    id.map(TokenId).ok_or_else(|| SettingsError::LogitBiasKey { found: text.chars().take(40).collect() })
}

impl CheckedSettings {
    /// The seed that was given, or drawn when the settings were checked.
    pub const fn seed(&self) -> Seed {
        self.seed
    }
}

impl std::ops::Deref for CheckedSettings {
    type Target = SamplingSettings;

    fn deref(&self) -> &SamplingSettings {
        &self.settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut SamplingSettings)) -> String {
        let mut settings = SamplingSettings::default();
        change(&mut settings);
        settings.validate(100).unwrap_err().to_string()
    }

    #[test]
    fn refusals_read_well() {
        let all = [
            refusal(|s| s.temperature = -0.5),
            refusal(|s| s.temperature = f32::NAN),
            refusal(|s| s.temperature = f32::INFINITY),
            refusal(|s| s.top_p = 0.0),
            refusal(|s| s.top_p = 1.5),
            refusal(|s| s.top_p = f64::NAN),
            refusal(|s| s.min_p = -0.1),
            refusal(|s| s.min_p = 1.01),
            refusal(|s| s.min_p = f64::NAN),
            refusal(|s| s.repetition_penalty = 0.0),
            refusal(|s| s.repetition_penalty = f32::NAN),
            refusal(|s| s.presence_penalty = 2.5),
            refusal(|s| s.presence_penalty = f32::NEG_INFINITY),
            refusal(|s| s.frequency_penalty = -3.0),
            refusal(|s| s.frequency_penalty = f32::NAN),
            refusal(|s| s.logit_bias = vec![(TokenId(99), 100.0), (TokenId(3), 101.0)]),
            refusal(|s| s.logit_bias = vec![(TokenId(3), f32::NAN)]),
            refusal(|s| s.logit_bias = vec![(TokenId(100), 1.0)]),
            refusal(|s| s.logit_bias = vec![(TokenId(3), 1.0); MAX_BIASES + 1]),
            refusal(|s| s.logprobs = Some(21)),
        ];
        insta::assert_snapshot!(all.join("\n"));
    }

    #[test]
    fn a_bias_is_for_a_token_id() {
        assert_eq!(bias_id("0"), Ok(TokenId(0)));
        assert_eq!(bias_id("4294967295"), Ok(TokenId(u32::MAX)));
        let refused = ["-1", "+1", "1.5", "abc", "", " 1", "4294967296", "90000000000"];
        let all = refused.map(|text| bias_id(text).unwrap_err().to_string());
        assert!(
            all.iter().zip(refused).all(|(message, text)| message.contains(&format!("{text:?}"))),
            "{all:?}"
        );
        let long = bias_id(&"x".repeat(1000)).unwrap_err().to_string();
        assert!(long.len() < 120, "{long}");
    }

    #[test]
    fn the_ends_of_every_range_are_taken() {
        for (temperature, top_p, min_p, repetition, penalty, bias) in
            [(0.0, f64::MIN_POSITIVE, 0.0, 0.01, -2.0, -100.0), (1e6, 1.0, 1.0, 100.0, 2.0, 100.0)]
        {
            let settings = SamplingSettings {
                temperature,
                top_k: usize::MAX,
                top_p,
                min_p,
                repetition_penalty: repetition,
                presence_penalty: penalty,
                frequency_penalty: penalty,
                logit_bias: vec![(TokenId(99), bias)],
                seed: None,
                logprobs: Some(MAX_LOGPROBS),
            };
            assert!(settings.validate(100).is_ok());
        }
    }

    #[test]
    fn a_tiny_temperature_is_greedy() {
        let checked = |temperature| {
            SamplingSettings { temperature, ..Default::default() }.validate(1).unwrap().temperature
        };
        assert_eq!(checked(0.99e-4), 0.0);
        assert_eq!(checked(f32::MIN_POSITIVE), 0.0);
        assert_eq!(checked(-0.0), 0.0);
        assert_eq!(checked(1e-4), 1e-4);
    }

    #[test]
    fn a_seed_is_kept_or_drawn_once() {
        let with = |seed| SamplingSettings { seed, ..Default::default() }.validate(1).unwrap();
        assert_eq!(with(Some(Seed(7))).seed(), Seed(7));
        assert_ne!(with(None).seed(), with(None).seed());
        let drawn = with(None);
        assert_eq!(drawn.clone().seed(), drawn.seed());
    }
}
