//! Every check fails where it must: a defect each, and what the check says of it.

#![allow(clippy::unwrap_used, reason = "tests, helpers included")]

use std::ops::ControlFlow;

use conformance::{
    Check, Failure, acceptance, batch, bounds, clipping, cuts, drafting,
    exactness::{block_equals_chain, same_as_classic, same_run},
    load,
    pair::Pair,
    pairing::{self, Misfit},
    plants::{DrafterDefect, PlantedDrafter, PlantedTarget, TargetDefect},
    random, rollback,
    rounds::{Ask, Run, counters, run},
    sizes, trained,
};
use mlxcel_core::{
    TokenId, Width,
    nn::Executor,
    sampling::SamplingSettings,
    speculative::{Decline, Finish, Request, Speculation, generate},
};
use mlxcel_dflash as _;
use mlxcel_lfm2 as _;
use mlxcel_muse as _;
use mlxcel_qwen as _;

fn widths() -> Vec<Width> {
    (1..=8).filter_map(Width::new).collect()
}

fn tokens(seed: u64, len: usize) -> Vec<TokenId> {
    random::tokens(seed, len, 64)
}

/// The first random pair with a defect in its target.
fn target(defect: TargetDefect) -> Pair {
    let mut pair = random::lfm2::pairs()[0].load().unwrap();
    let executor = Executor::detect().unwrap();
    pair.target = Box::new(PlantedTarget::new(pair.target, executor, defect));
    pair
}

/// The first random pair with a defect in its drafter.
fn drafter(defect: DrafterDefect) -> Pair {
    let mut pair = random::lfm2::pairs()[0].load().unwrap();
    pair.drafter = Box::new(PlantedDrafter::new(pair.drafter, 64, defect));
    pair
}

fn fails<T>(result: Result<T, Failure>, with: &str) {
    match result {
        Ok(_) => panic!("the check passed over the defect"),
        Err(failure) => assert!(failure.to_string().contains(with), "unexpected failure: {failure}"),
    }
}

#[test]
fn a_flipped_bit_is_no_chain() {
    let pair = target(TargetDefect::BitInBlocksOf(3));
    let result = block_equals_chain(pair.models(), &tokens(1, 9), &tokens(2, 8), &widths());
    fails(result, "logits of a block of 3: 1 of 192 numbers differ");
}

#[test]
fn a_choice_that_depends_on_the_width_is_not_classic() {
    let mut pair = target(TargetDefect::ChoiceInBlocksOf(4));
    // Guided, so that last rows count.
    let ask = Ask::greedy(&tokens(1, 6), 20);
    let answer = run(pair.models(), &ask, None).unwrap().tokens();
    pair.drafter = Box::new(conformance::Guided::new(pair.drafter, 6, &answer, 64, &[usize::MAX]));
    let check = |width| same_as_classic(pair.models(), &ask, &[Width::new(width).unwrap()]);
    check(3).unwrap();
    fails(check(4), "classic decoding gives");
}

#[test]
fn a_choice_that_depends_on_where_a_block_is_cut_is_not_classic() {
    fails(cuts::cuts_of(target(TargetDefect::ChoiceInBlocksOf(2)), 1), "classic decoding gives");
    fails(cuts::short_blocks_of(target(TargetDefect::ChoiceInBlocksOf(2)), 1), "classic decoding gives");
}

#[test]
fn a_row_of_another_token_is_not_taken_back_right() {
    let pair = target(TargetDefect::RepeatsFirstRow);
    let target = pair.target.as_ref();
    fails(rollback::every_count(target, &tokens(1, 5), &tokens(2, 8), &widths()), "2 of 2 rows kept");
    fails(rollback::block_after_block(target, &tokens(1, 5), &tokens(2, 8)), "2 of 8 rows kept");
    fails(rollback::growth(target, &tokens(3, 300)), "blocks of 4");
    fails(clipping::every_accepted_count(pair, &tokens(1, 5), &widths()), "accepted");
}

#[test]
fn a_row_too_many_is_seen() {
    let pair = target(TargetDefect::ExtraPromptRow);
    let result = same_as_classic(pair.models(), &Ask::greedy(&tokens(1, 6), 8), &widths());
    fails(result, "classic: the state holds 7 rows, expected prompt + emitted - 1 = 6");
}

/// What two runs are compared by: each part differs once.
#[test]
fn runs_that_differ_in_anything_differ() {
    let pair = random::lfm2::pairs()[0].load().unwrap();
    let sampling = SamplingSettings { temperature: 0.0, logprobs: Some(1), ..SamplingSettings::default() };
    let ask = Ask { sampling, ..Ask::greedy(&tokens(1, 6), 8) };
    let run = run(pair.models(), &ask, Width::new(4)).unwrap();
    same_run(&run, &run).unwrap();
    counters(&run, &ask).unwrap();
    let changed = |change: &dyn Fn(&mut Run)| {
        let mut other = run.clone();
        change(&mut other);
        other
    };
    let differs = |change: &dyn Fn(&mut Run), with| fails(same_run(&changed(change), &run), with);
    differs(&|run| run.decisions[3].token.0 ^= 1, "token 3 is");
    differs(&|run| run.decisions.truncate(7), "(7 and 8 tokens)");
    differs(&|run| run.decisions[2].logprobs = None, "log-probabilities differ");
    differs(&|run| run.finish = Finish::Context, "ends with Context, classic with MaxTokens");
    differs(&|run| run.state[1][5] += 1.0, "state of layer 1: 1 of");
    differs(&|run| run.state[0].clear(), "state of layer 0");
    let miscounts = |change: &dyn Fn(&mut Run)| fails(counters(&changed(change), &ask), "the counters are");
    miscounts(&|run| run.report.accepted += 1);
    miscounts(&|run| run.report.rounds -= 1);
    miscounts(&|run| run.report.emitted -= 1);
    miscounts(&|run| run.report.proposed_by_position[0] += 1);
    miscounts(&|run| run.report.widths.clear());
}

/// A verify forward that captured no taps is an error, never zeros.
#[test]
fn missing_taps_are_seen() {
    let pair = target(TargetDefect::NoTaps);
    let result = same_as_classic(pair.models(), &Ask::greedy(&tokens(1, 6), 8), &widths());
    fails(result, "width 2: the forward captured 0 taps of 2");
}

#[test]
fn contexts_that_depend_on_their_pieces_are_seen() {
    let pair = drafter(DrafterDefect::ForgetsRows);
    let result = drafting::pieces(pair.target.as_ref(), pair.drafter.as_ref(), &tokens(1, 40));
    fails(result, "pieces of 1, drafts between them: false: the drafter's logits");
}

#[test]
fn states_that_depend_on_their_size_are_seen() {
    let pair = target(TargetDefect::DirtyNarrowStates);
    fails(sizes::at_every_width(pair.target.as_ref(), &tokens(1, 5), &tokens(2, 520)), "width 129, 129 kept");
    let pair = target(TargetDefect::RepeatsFirstRow);
    fails(sizes::at_every_width(pair.target.as_ref(), &tokens(1, 5), &tokens(2, 520)), "width 2, 2 kept");
}

/// A config that loads with anything in one field.
#[test]
fn a_number_that_nobody_reads_is_seen() {
    let mut pair = random::lfm2::pairs().swap_remove(0);
    pair.target.config["no_such_number"] = 7.into();
    fails(bounds::every_number(&pair), "/no_such_number = 3000000000: loaded");
}

#[test]
fn rows_of_a_neighbour_are_seen() {
    let pair = target(TargetDefect::MixesSegments);
    fails(batch::mixed(pair.target.as_ref(), &tokens(1, 40)), "among 5: logits");
}

#[test]
fn states_that_differ_by_their_slack_are_seen() {
    let pair = target(TargetDefect::DirtyNarrowStates);
    fails(rollback::slack(pair.target.as_ref(), &tokens(1, 5), &tokens(2, 8)), "slack 32");
}

#[test]
fn proposals_outside_the_vocabulary_are_refused() {
    let pair = drafter(DrafterDefect::OutOfRange);
    let result = same_as_classic(pair.models(), &Ask::greedy(&tokens(1, 6), 8), &widths());
    fails(result, "token id 64 is outside the vocabulary of 64");
}

#[test]
fn a_proposal_too_many_is_seen() {
    let pair = drafter(DrafterDefect::OneTooMany);
    let result = same_as_classic(pair.models(), &Ask::greedy(&tokens(1, 6), 8), &widths());
    fails(result, "2 proposals, 1 were asked for");
}

#[test]
fn rows_that_the_drafter_takes_twice_are_seen() {
    let pair = drafter(DrafterDefect::ObservesTwice);
    let result = same_as_classic(pair.models(), &Ask::greedy(&tokens(1, 6), 8), &widths());
    fails(result, "1 rows wait behind 10, expected up to 6");
}

/// No other check sees it: the text stays right.
#[test]
fn taps_one_layer_early_fall_below_the_floor() {
    for trained in [trained::LFM2, trained::QWEN3_5, trained::MUSE_GLIMMER] {
        let (mut pair, text) = trained.open().unwrap();
        let vocab = pair.target.spec().vocab;
        pair.drafter = Box::new(PlantedDrafter::new(pair.drafter, vocab, DrafterDefect::TapsOneEarly));
        fails(acceptance::reaches(&pair, &text, trained.tokens_per_round), "tokens per round");
    }
}

#[test]
fn a_block_at_the_wrong_position_is_refused() {
    let pair = drafter(DrafterDefect::LatePosition);
    let result = same_as_classic(pair.models(), &Ask::greedy(&tokens(1, 6), 8), &widths());
    fails(result, "rows of the drafter's context: found 6, expected 7");
}

#[test]
fn a_misfit_that_loads_is_seen() {
    let pair = &random::lfm2::pairs()[0];
    let mut misfits = random::dspark::misfits(&pair.drafter.config);
    misfits.push(Misfit { refusal: "Width", config: pair.drafter.config.clone() });
    fails(pairing::refusals(pair, &misfits), "Width: loaded");
    let all = random::dspark::misfits(&pair.drafter.config);
    let some: Vec<_> = all.into_iter().filter(|misfit| misfit.refusal != "Vocab").collect();
    fails(pairing::refusals(pair, &some), "no misfit asks for the refusal Vocab");
    let mut misnamed = random::dspark::misfits(&pair.drafter.config);
    let hidden = misnamed.iter().position(|misfit| misfit.refusal == "Hidden").unwrap();
    misnamed.push(Misfit { refusal: "Vocab", config: misnamed[hidden].config.clone() });
    fails(pairing::refusals(pair, &misnamed), "Vocab: refused as Hidden");
}

/// Goldens: a spoilt model is told from a right one.
mod golden {
    use conformance::golden::{self, Golden, Precision};
    use mlxcel_core::family::{Drafter, Target};

    use super::*;

    fn spoilt_target(defect: TargetDefect) -> Box<dyn Target> {
        let golden = Golden::open("lfm2/f32").unwrap();
        let target = load::target(golden.checkpoint().unwrap()).unwrap();
        Box::new(PlantedTarget::new(target, Executor::detect().unwrap(), defect))
    }

    fn spoilt_drafter(target: &dyn Target, defect: DrafterDefect) -> Box<dyn Drafter> {
        let golden = Golden::open("lfm2_dspark/f32").unwrap();
        let drafter = load::drafter(golden.checkpoint().unwrap(), target).unwrap();
        Box::new(PlantedDrafter::new(drafter, 320, defect))
    }

    fn exact(defect: TargetDefect) -> Check {
        golden::exact_on(spoilt_target(defect).as_ref(), &Golden::open("lfm2/f32").unwrap())
    }

    #[test]
    fn logits_taps_and_chunks_are_compared() {
        exact(TargetDefect::BitInBlocksOf(1)).unwrap();
        fails(exact(TargetDefect::ChoiceInBlocksOf(65)), "lfm2/f32/one: one forward");
        fails(exact(TargetDefect::ChoiceInBlocksOf(1)), "decoded row");
        fails(exact(TargetDefect::EarlyTaps), "taps");
        fails(exact(TargetDefect::ForgetsChunks), "prefill in chunks");
    }

    #[test]
    fn rolled_back_rows_are_compared() {
        let target = spoilt_target(TargetDefect::RepeatsFirstRow);
        fails(golden::rollback_on(target.as_ref(), &Golden::open("lfm2/f32").unwrap()), "block");
        let target = spoilt_target(TargetDefect::ChoiceInBlocksOf(1));
        fails(golden::rollback_on(target.as_ref(), &Golden::open("lfm2/f32").unwrap()), "follow-up");
    }

    #[test]
    fn low_precision_has_a_bound() {
        let golden = Golden::open("lfm2/bf16").unwrap();
        let executor = Executor::detect().unwrap();
        // 65 rows: the first prompt and its answer.
        let target = load::target(golden.checkpoint().unwrap()).unwrap();
        let target = PlantedTarget::new(target, executor, TargetDefect::RepeatsFirstRow);
        fails(golden::within_reference_on(&target, &golden), "mean abs error");
    }

    #[test]
    fn drafts_and_traces_are_compared() {
        let target = spoilt_target(TargetDefect::BitInBlocksOf(0));
        let (case, bound) = (Golden::open("lfm2_dspark/f32").unwrap(), Golden::open("lfm2/f32").unwrap());
        let drafts = |defect, precision| {
            let drafter = spoilt_drafter(target.as_ref(), defect);
            golden::drafter_on(drafter.as_ref(), Executor::detect().unwrap(), &case, precision)
        };
        for precision in [Precision::F32, Precision::Bf16] {
            fails(drafts(DrafterDefect::ForgetsRows, precision), "step 0");
            fails(drafts(DrafterDefect::Swaps, precision), "is not what was picked");
        }
        let trace = |defect| {
            let drafter = spoilt_drafter(target.as_ref(), defect);
            golden::trace_on(target.as_ref(), drafter.as_ref(), &case, &bound)
        };
        fails(trace(DrafterDefect::ForgetsRows), "accepted");
        fails(trace(DrafterDefect::Swaps), "accepted");
    }
}

/// A drafter that fails costs a request its speculation, not its answer.
#[test]
fn a_drafter_that_fails_is_left_behind() {
    let answer = |pair: &Pair, speculation| {
        let request = Request {
            prompt: tokens(1, 6),
            sampling: SamplingSettings { temperature: 0.0, ..SamplingSettings::default() }
                .validate(64)
                .unwrap(),
            choice: 0,
            max_tokens: 12,
            min_tokens: 0,
            eos: Vec::new(),
            watch: None,
            speculation,
        };
        generate(pair.models(), request, &mut |_| ControlFlow::Continue(())).unwrap()
    };
    for defect in [
        DrafterDefect::CannotPropose,
        DrafterDefect::CannotObserve,
        DrafterDefect::OutOfRange,
        DrafterDefect::OneTooMany,
    ] {
        let pair = drafter(defect);
        let classic = answer(&pair, Speculation::Off);
        let speculative = answer(&pair, Speculation::Fixed(Width::EIGHT));
        assert_eq!(speculative.tokens, classic.tokens, "{defect:?}");
        assert_eq!(speculative.report.decline, Some(Decline::DrafterFailed), "{defect:?}");
    }
}
