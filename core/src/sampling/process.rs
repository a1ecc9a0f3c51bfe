//! What is done to the logits before temperature and filters: suppression, logit bias, penalties.

use crate::TokenId;
use crate::sampling::history::History;
use crate::sampling::settings::SamplingSettings;
use crate::sampling::vocabulary::Vocabulary;

/// The logits of the ids below [`Vocabulary::end`] after processing: `raw` itself where nothing changes, else `buffer`.
///
/// Ids that may not be emitted get −∞. Then, per id: `l + bias`; `l / r` if `l > 0`, else `l · r` (repetition, prompt and
/// output); `l − frequency · n − presence` (output only, n occurrences). A finite logit stays finite.
pub(crate) fn process<'a>(
    raw: &'a [f32],
    settings: &SamplingSettings,
    vocabulary: &Vocabulary,
    history: &History,
    suppressed: &[TokenId],
    buffer: &'a mut Vec<f32>,
) -> &'a [f32] {
    let raw = &raw[..vocabulary.end()];
    let penalties = Penalties::new(settings);
    if vocabulary.has_no_holes()
        && suppressed.is_empty()
        && settings.logit_bias.is_empty()
        && penalties.is_none()
    {
        return raw;
    }
    buffer.clear();
    buffer.extend_from_slice(raw);
    for id in vocabulary.dropped().chain(suppressed.iter().copied()) {
        if let Some(logit) = buffer.get_mut(id.index()) {
            *logit = f32::NEG_INFINITY;
        }
    }
    for &(id, bias) in &settings.logit_bias {
        if let Some(logit) = buffer.get_mut(id.index()) {
            *logit = like(*logit, *logit + bias);
        }
    }
    if let Some(penalties) = penalties {
        for (id, count) in history.counts() {
            if let Some(logit) = buffer.get_mut(id.index()) {
                *logit = like(*logit, penalties.apply(*logit, count.output));
            }
        }
    }
    buffer
}

/// `value`, held in the finite range if `original` is finite and −∞ if it is not.
fn like(original: f32, value: f32) -> f32 {
    if original == f32::NEG_INFINITY { original } else { value.clamp(f32::MIN, f32::MAX) }
}

struct Penalties {
    repetition: f32,
    presence: f32,
    frequency: f32,
}

impl Penalties {
    fn new(settings: &SamplingSettings) -> Option<Self> {
        let &SamplingSettings { repetition_penalty, presence_penalty, frequency_penalty, .. } = settings;
        let off = repetition_penalty == 1.0 && presence_penalty == 0.0 && frequency_penalty == 0.0;
        (!off).then_some(Self {
            repetition: repetition_penalty,
            presence: presence_penalty,
            frequency: frequency_penalty,
        })
    }

    /// The logit of an id of the history that is `occurrences` times in the output.
    fn apply(&self, logit: f32, occurrences: u32) -> f32 {
        let repeated = if logit > 0.0 { logit / self.repetition } else { logit * self.repetition };
        if occurrences == 0 {
            return repeated;
        }
        repeated - self.frequency * occurrences as f32 - self.presence
    }
}
