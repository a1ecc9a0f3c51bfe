//! Ids that a model has logits for and never emits.

use crate::{
    Result, TokenId,
    checkpoint::{Checkpoint, Config},
};

/// The ids that `suppress_tokens` lists, in `generation_config.json`, `config.json` or its section `text`, and those that
/// the fields `named` give there: ids that stand for images or padding and are no answer. An id that ends answers stays.
///
/// # Errors
/// A field that is no id and no list of ids; a `generation_config.json` that is no JSON object.
pub fn suppressed(checkpoint: &Checkpoint, text: &Config, named: &[&str]) -> Result<Vec<TokenId>> {
    const GENERATION: &str = "generation_config.json";
    let generation = match checkpoint.source().bytes(GENERATION)? {
        Some(bytes) => Some(Config::parse(GENERATION, &bytes)?),
        None => None,
    };
    let (mut ends, mut ids) = (Vec::new(), Vec::new());
    for section in [Some(checkpoint.config()), Some(text), generation.as_ref()].into_iter().flatten() {
        ends.extend(section.ids("eos_token_id")?);
        for field in named.iter().chain(&["suppress_tokens"]) {
            ids.extend(section.ids(field)?);
        }
    }
    ids.retain(|id| !ends.contains(id));
    ids.sort_unstable();
    ids.dedup();
    Ok(ids.into_iter().map(TokenId).collect())
}
