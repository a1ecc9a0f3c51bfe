//! Ids that a model never emits.

use std::sync::Arc;

use mlxcel_core::{
    TokenId, Width,
    checkpoint::Checkpoint,
    exactness::Gate,
    sampling::{SamplingSettings, Seed, Vocabulary},
    speculative::Models,
};
use serde_json::json;

use crate::{
    Check, Failure, ensure,
    exactness::same_run,
    load,
    random::{self, RandomPair},
    rounds::{Ask, run},
};

/// What `generation_config.json` suppresses is never emitted though the model wants it, classic or speculative, greedy or
/// sampled; an id that also ends answers stays.
pub fn never_emitted(pair: &RandomPair) -> Check {
    let loaded = pair.load()?;
    let vocab = loaded.target.spec().vocab;
    let free = Ask::greedy(&random::tokens(5, 9, vocab), 40);
    let sampling = SamplingSettings { temperature: 1.5, seed: Some(Seed(7)), ..SamplingSettings::default() };
    let sampled = Ask { sampling, ..free.clone() };
    // A greedy answer may be one token over and over.
    let mut wished: Vec<_> = run(loaded.models(), &sampled, None)?.tokens();
    wished.sort_unstable();
    wished.dedup();
    let [first, second, end, ..] = wished.as_slice() else {
        return Err(Failure::Fixture(format!("an answer of {wished:?} only")));
    };
    let generation = json!({ "suppress_tokens": [second.0, first.0, end.0], "eos_token_id": end.0 });
    let folder = tempfile::tempdir()?;
    let tensors = pair.target.tensors.clone().config(pair.target.config.clone());
    tensors.file("generation_config.json", generation.to_string()).write(folder.path())?;
    let target = load::target(Checkpoint::open(folder.path())?)?;
    let suppressed = target.spec().suppressed.clone();
    ensure!(suppressed == [*first, *second], "suppressed {suppressed:?}, expected {first} and {second}");

    let drafter = load::drafter(pair.drafter.open()?, target.as_ref())?;
    let vocabulary = Arc::new(Vocabulary::new(vocab, |_| true, &suppressed));
    let models = Models {
        target: target.as_ref(),
        drafter: Some(drafter.as_ref()),
        vocabulary: &vocabulary,
        gate: Gate::unguarded(),
    };
    for ask in [free, sampled] {
        let classic = run(models, &ask, None)?;
        let emitted: Vec<TokenId> = classic.tokens();
        ensure!(emitted.iter().all(|token| !suppressed.contains(token)), "emitted {emitted:?}");
        for rows in [2, 4, 8] {
            same_run(&run(models, &ask, Width::new(rows))?, &classic)?;
        }
    }
    Ok(())
}
