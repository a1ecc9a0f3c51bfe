//! What ends an answer clips it before the commit: state, text and counters agree, wherever in a block it falls.

use mlxcel_core::{
    TokenId, Width,
    exactness::Gate,
    family::Drafter,
    sampling::SamplingSettings,
    speculative::{Finish, Models},
};

use crate::{
    At as _, Check, Guided, ensure,
    exactness::same_run,
    pair::Pair,
    rounds::{Ask, Run, run},
};

/// Every way to end at every position of a block of `width` rows, with every proposal right, with none, and with
/// changing counts.
pub fn at_every_position(pair: Pair, prompt: &[TokenId], width: Width) -> Result<Pair, crate::Failure> {
    let free = Ask::greedy(prompt, 3 * width.rows());
    let answer = run(pair.models(), &free, None)?.tokens();
    let Pair { name, target, mut drafter, vocabulary } = pair;
    for right in [vec![usize::MAX], vec![0], (0..width.rows()).collect()] {
        let vocab = target.spec().vocab;
        let guided = Guided::new(drafter, prompt.len(), &answer, vocab, &right);
        let models = Models {
            target: target.as_ref(),
            drafter: Some(&guided),
            vocabulary: &vocabulary,
            gate: Gate::unguarded(),
        };
        for end in 1..=2 * width.rows() + 1 {
            every_end(models, &free, &answer, end, width)
                .at(format_args!("{name}: {} right proposals, end at {end}", right[0]))?;
        }
        drafter = guided.into_inner();
    }
    Ok(Pair { name, target, drafter, vocabulary })
}

fn every_end(models: Models<'_>, free: &Ask, answer: &[TokenId], end: usize, width: Width) -> Check {
    let token = answer[end - 1];
    let first = answer.iter().position(|other| *other == token).map_or(end, |at| at + 1);
    for (ask, emitted, finish) in [
        (Ask { max_tokens: end, ..free.clone() }, end, Finish::MaxTokens),
        (Ask { stop_after: Some(end), ..free.clone() }, end, Finish::Stop),
        (Ask { eos: vec![token], ..free.clone() }, first, Finish::Eos),
    ] {
        let classic = run(models, &ask, None)?;
        ends(&classic, answer, emitted, finish).at("classic")?;
        let speculative = run(models, &ask, Some(width))?;
        ends(&speculative, answer, emitted, finish)?;
        same_run(&speculative, &classic)?;
    }
    Ok(())
}

fn ends(run: &Run, answer: &[TokenId], emitted: usize, finish: Finish) -> Check {
    let tokens = run.tokens();
    ensure!(tokens == answer[..emitted], "{finish:?}: {} tokens, expected {emitted}", tokens.len());
    ensure!(run.finish == finish, "ends with {:?}, expected {finish:?}", run.finish);
    Ok(())
}

/// End tokens do not come before `min_tokens`, though the model wants them: at every count, greedy and sampled.
pub fn min_tokens(models: Models<'_>, prompt: &[TokenId], width: Width) -> Check {
    let free = Ask::greedy(prompt, 2 * width.rows());
    let eos = run(models, &free, None)?.tokens();
    for min in [0, 1, 2, width.rows(), width.rows() + 1, 2 * width.rows()] {
        let eos = eos.clone();
        let sampled =
            SamplingSettings { temperature: 1.0, seed: Some(7u64.into()), ..SamplingSettings::default() };
        for sampling in [free.sampling.clone(), sampled] {
            let ask = Ask { min_tokens: min, eos: eos.clone(), sampling, ..free.clone() };
            let classic = run(models, &ask, None)?;
            let early = classic.tokens().iter().take(min).position(|token| eos.contains(token));
            ensure!(early.is_none(), "min_tokens {min}: an end token at {early:?}");
            same_run(&run(models, &ask, Some(width))?, &classic).at(format_args!("min_tokens {min}"))?;
        }
    }
    Ok(())
}

/// The answer ends where the context does, with every row used; a prompt that leaves no room is refused.
pub fn context_edge(models: Models<'_>, prompt: &[TokenId], widths: &[Width]) -> Check {
    let context = models.target.spec().context;
    ensure!(prompt.len() >= context, "fixture: a prompt of {} for a context of {context}", prompt.len());
    for room in [1, 2, 5, 11] {
        let ask = Ask::greedy(&prompt[..context - room], usize::MAX);
        for width in widths.iter().map(|width| Some(*width)).chain([None]) {
            let run = run(models, &ask, width)?;
            let (emitted, finish) = (run.decisions.len(), run.finish);
            ensure!(
                emitted == room + 1 && finish == Finish::Context,
                "room for {room}, width {width:?}: {emitted} tokens, then {finish:?}"
            );
        }
        crate::exactness::same_as_classic(models, &ask, widths).at(format_args!("room for {room}"))?;
    }
    for too_long in [context, context + 1] {
        if too_long > prompt.len() {
            continue;
        }
        let result = run(models, &Ask::greedy(&prompt[..too_long], 1), None);
        let refused = matches!(
            &result,
            Err(crate::Failure::Core(mlxcel_core::Error::PromptTooLong { tokens, .. })) if *tokens == too_long
        );
        ensure!(refused, "a prompt of {too_long} in a context of {context} is not refused as too long");
    }
    Ok(())
}

/// Every accepted count of every width in turn, on the real target, leaves the answer and the state as they are.
pub fn every_accepted_count(
    pair: Pair,
    prompt: &[TokenId],
    widths: &[Width],
) -> Result<Pair, crate::Failure> {
    let widest = widths.iter().map(|width| width.rows()).max().unwrap_or(1);
    let ask = Ask::greedy(prompt, 2 * widest + 4);
    let classic = run(pair.models(), &ask, None)?;
    let answer = classic.tokens();
    let Pair { name, target, mut drafter, vocabulary } = pair;
    for width in widths {
        for accepted in 0..width.rows() {
            let vocab = target.spec().vocab;
            let guided = Guided::new(drafter, prompt.len(), &answer, vocab, &[accepted]);
            let models = Models {
                target: target.as_ref(),
                drafter: Some(&guided),
                vocabulary: &vocabulary,
                gate: Gate::unguarded(),
            };
            let place = format!("{name}: width {width}, {accepted} accepted");
            let run = run(models, &ask, Some(*width)).at(&place)?;
            same_run(&run, &classic).at(&place)?;
            let counts: Vec<_> = run.rounds.iter().map(crate::rounds::Round::accepted).collect();
            // The budget clips the last rounds.
            let whole = counts.len().saturating_sub(widest);
            ensure!(
                counts[..whole].iter().all(|count| *count == accepted) && counts.first() == Some(&accepted),
                "{place}: accepted {counts:?}"
            );
            drafter = guided.into_inner();
        }
    }
    Ok(Pair { name, target, drafter, vocabulary })
}

/// What a drafter says of its widths is kept: a wider block is refused by name before anything runs.
pub fn width_bound(models: Models<'_>, drafter: &dyn Drafter, prompt: &[TokenId]) -> Check {
    let trained = drafter.spec().trained_width.rows();
    for rows in [trained + 1, 1_000_000_000] {
        let result = run(models, &Ask::greedy(prompt, 4), Width::new(rows));
        let refused = matches!(
            &result,
            Err(crate::Failure::Core(mlxcel_core::Error::WidthOverLimit { found, limit }))
                if *found == rows && *limit == trained
        );
        ensure!(refused, "width {rows} is not refused as over the limit of {trained}");
    }
    Ok(())
}
