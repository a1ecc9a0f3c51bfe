//! The definition of a decision, written out: full sort, all noise, no shortcuts.

use super::*;
use crate::sampling::weight::Softmax;

/// Everything that a decision depends on.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) logits: Vec<f32>,
    pub(super) settings: SamplingSettings,
    pub(super) choice: u64,
    pub(super) position: Position,
    pub(super) prompt: Vec<TokenId>,
    pub(super) output: Vec<TokenId>,
    pub(super) unknown: Vec<TokenId>,
    pub(super) never: Vec<TokenId>,
    pub(super) not_now: Vec<TokenId>,
}

impl Case {
    pub(super) fn history(&self) -> History {
        let mut history = History::new(&self.prompt);
        self.output.iter().for_each(|&token| history.push(token));
        history
    }

    pub(super) fn sampler(&self) -> Sampler {
        let columns = self.logits.len();
        let vocabulary = Vocabulary::new(columns, |id| !self.unknown.contains(&id), &self.never);
        Sampler::new(self.settings.clone().validate(columns).unwrap(), self.choice, Arc::new(vocabulary))
    }

    pub(super) fn pick(&self) -> Result<TokenId, SamplingError> {
        self.sampler().pick(&self.logits, self.position, &self.history(), &self.not_now)
    }

    /// The kept ids with their processed logits, best first.
    pub(super) fn kept(&self) -> Vec<(TokenId, f32)> {
        let settings = &self.settings;
        let finite = |logit: f32| logit.clamp(f32::MIN, f32::MAX);
        let mut ranking = Vec::new();
        for (index, &raw) in self.logits.iter().enumerate() {
            let id = TokenId(index as u32);
            if [&self.unknown, &self.never, &self.not_now].iter().any(|dropped| dropped.contains(&id)) {
                continue;
            }
            if raw == f32::NEG_INFINITY {
                continue;
            }
            let biases = settings.logit_bias.iter().filter(|(biased, _)| *biased == id);
            let mut logit = biases.fold(raw, |logit, (_, bias)| finite(logit + bias));
            let occurrences = self.output.iter().filter(|&&token| token == id).count();
            if occurrences > 0 || self.prompt.contains(&id) {
                let penalty = settings.repetition_penalty;
                logit = if logit > 0.0 { logit / penalty } else { logit * penalty };
            }
            if occurrences > 0 {
                logit = logit - settings.frequency_penalty * occurrences as f32 - settings.presence_penalty;
            }
            ranking.push((id, finite(logit)));
        }
        ranking.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
        if settings.temperature == 0.0 {
            ranking.truncate(1);
        }
        if settings.top_k > 0 {
            ranking.truncate(settings.top_k);
        }
        let Some(&(_, best)) = ranking.first() else { return ranking };
        let softmax = Softmax { best, temperature: settings.temperature };
        let mass = |logit: f32| softmax.weight(logit);
        if settings.top_p < 1.0 && settings.temperature > 0.0 {
            let target = settings.top_p * ranking.iter().map(|&(_, logit)| mass(logit)).sum::<f64>();
            let mut sum = 0.0;
            let reaches = ranking.iter().position(|&(_, logit)| {
                sum += mass(logit);
                sum >= target
            });
            ranking.truncate(reaches.map_or(ranking.len(), |index| index + 1));
        }
        if settings.min_p > 0.0 && settings.temperature > 0.0 {
            ranking.retain(|&(_, logit)| mass(logit) >= settings.min_p);
        }
        ranking
    }

    /// The token, by scoring every kept id.
    pub(super) fn token(&self) -> Option<TokenId> {
        let noise = Noise::new(self.settings.seed.unwrap(), self.choice, self.position);
        let score = |id, logit| self.settings.temperature.mul_add(noise.gumbel(id), logit);
        let mut kept = self.kept();
        kept.sort_by_key(|&(id, _)| id);
        let mut winner: Option<(TokenId, f32)> = None;
        for (id, logit) in kept {
            if winner.is_none_or(|(_, best)| score(id, logit) > best) {
                winner = Some((id, score(id, logit)));
            }
        }
        winner.map(|(id, _)| id)
    }
}
