//! What all routes share.

use std::{sync::Arc, time::Duration};

use mlxcel_core::{
    TokenId, Width,
    engine::{Engine, Phase, Ready},
    sampling::SamplingSettings,
    speculative::{
        Speculation,
        width::{ConfidenceUse, WidthPolicy, WidthSet},
    },
    text::TextModel,
};

use crate::{error::ApiError, metrics::Metrics, request::Wish};

/// How the model is called.
#[derive(Clone, Debug)]
pub(crate) struct ModelNames {
    /// The id that is listed.
    pub(crate) id: String,
    /// The name that the checkpoint has by itself.
    pub(crate) own: String,
    /// Unix time of the start.
    pub(crate) created: u64,
}

impl ModelNames {
    pub(crate) fn answers_to(&self, name: &str) -> bool {
        name == self.id || name == self.own
    }
}

/// Whether and how wide the server speculates where a request does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speculate {
    /// As wide as pays, up to this many rows or the trained width; not at all where nothing does.
    Adaptive(Option<Width>),
    /// Blocks of this many rows, or as many as the drafter declares.
    Fixed(Option<Width>),
    /// Not at all.
    Off,
}

/// What all routes share.
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) text: Arc<TextModel>,
    /// The token that starts every text.
    pub(crate) bos: Option<String>,
    /// A comment keeps a stream alive after this long a silence.
    pub(crate) keep_alive: Duration,
    pub(crate) model: ModelNames,
    /// Settings of requests that leave them open.
    pub(crate) defaults: SamplingSettings,
    /// Tokens of an answer where a request names no cap.
    pub(crate) max_tokens: Option<usize>,
    pub(crate) speculate: Speculate,
    pub(crate) confidence: ConfidenceUse,
    pub(crate) metrics: Arc<Metrics>,
}

impl App {
    /// What is known of the models; an error while they are loaded.
    pub(crate) fn ready(&self) -> Result<&Ready, ApiError> {
        match (self.engine.phase(), self.engine.ready()) {
            (Phase::Ready, Some(ready)) => Ok(ready),
            (Phase::Loading, _) | (Phase::Ready, None) => {
                Err(ApiError::unavailable("the model is still loading"))
            }
            (Phase::Draining | Phase::Ended, _) => Err(ApiError::unavailable("the server is shutting down")),
        }
    }

    /// Ids of a text to be continued: after the token that starts every text, unless it begins with it.
    pub(crate) fn continued(&self, prompt: &str) -> Result<Vec<TokenId>, ApiError> {
        let bos = self.bos.as_deref().filter(|bos| !prompt.starts_with(bos)).unwrap_or_default();
        Ok(self.text.continued(&format!("{bos}{prompt}"))?)
    }

    /// How a request is speculated: as it wishes, within what the server does.
    pub(crate) fn speculation(&self, wish: Wish) -> Speculation {
        let declared = self.engine.ready().and_then(|ready| Some((ready.drafter.as_ref()?, &ready.evidence)));
        let most = match wish {
            Wish::Off => return Speculation::Off,
            Wish::AtMost(most) => Some(most),
            Wish::Default => None,
        };
        let at_most = |width: Width| most.map_or(width, |most| width.min(most));
        match (self.speculate, declared) {
            (Speculate::Off, _) => Speculation::Off,
            (_, None) => Speculation::Fixed(Width::ONE),
            (Speculate::Fixed(width), Some((drafter, _))) => {
                Speculation::Fixed(at_most(width.unwrap_or(drafter.default_width)))
            }
            (Speculate::Adaptive(ceiling), Some((drafter, evidence))) => {
                let ceiling = at_most(ceiling.unwrap_or(drafter.trained_width));
                if ceiling == Width::ONE {
                    return Speculation::Fixed(ceiling);
                }
                let widths = WidthSet::up_to(ceiling);
                let policy = WidthPolicy::new(evidence.clone(), &widths, drafter.trained_width);
                Speculation::Adaptive(policy.with_confidence(self.confidence))
            }
        }
    }
}
