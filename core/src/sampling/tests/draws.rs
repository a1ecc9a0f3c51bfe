//! Decisions as random draws: the right distribution, independent, and as often accepted as promised.

use super::*;

/// `z` with P(Z > z) = 1e-6 for a standard normal Z.
const Z: f64 = 4.753_424;

/// χ² of `counts` against `probabilities`, as a multiple of its 1 − 1e-6 quantile (Wilson and Hilferty 1931). Neighbouring
/// cells are joined until each expects 10 draws, so the tail counts too.
fn chi_square(counts: &[u64], probabilities: &[f64]) -> f64 {
    let draws = counts.iter().sum::<u64>() as f64;
    let (mut statistic, mut cells) = (0.0_f64, 0.0_f64);
    let (mut found, mut expected) = (0.0_f64, 0.0_f64);
    let mut left: f64 = probabilities.iter().sum::<f64>() * draws;
    for (&count, &p) in counts.iter().zip(probabilities) {
        found += count as f64;
        expected += p * draws;
        left -= p * draws;
        if expected >= 10.0 && left >= 10.0 {
            statistic += (found - expected).powi(2) / expected;
            cells += 1.0;
            (found, expected) = (0.0, 0.0);
        }
    }
    statistic += (found - expected).powi(2) / expected.max(1e-9);
    let spread = 2.0 / (9.0 * cells);
    statistic / (cells * (1.0 - spread + Z * spread.sqrt()).powi(3))
}

const IDS: usize = 4096;
const DRAWS: usize = 20_000;

/// A Zipf-like row: the first 100 ids have about 60 % at temperature 1, the last 2000 about 4 %. Ids are shuffled.
fn zipf() -> Vec<f32> {
    let mut logits = vec![0.0; IDS];
    (0..IDS).for_each(|rank| logits[rank * 1597 % IDS] = -1.2 * ((rank + 2) as f32).ln());
    logits
}

/// χ² of draws at `temperature` against softmax(l/T), cells from the most to the least probable.
fn draws_against_softmax(logits: &[f32], temperature: f32, draw: impl Fn(usize) -> TokenId) -> f64 {
    let mut ranking: Vec<usize> = (0..logits.len()).collect();
    ranking.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let weights: Vec<f64> =
        ranking.iter().map(|&id| (logits[id] as f64 / temperature as f64).exp()).collect();
    let total: f64 = weights.iter().sum();
    let probabilities: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    let mut counts = vec![0; logits.len()];
    (0..DRAWS).for_each(|i| counts[draw(i).index()] += 1);
    let ranked: Vec<u64> = ranking.iter().map(|&id| counts[id]).collect();
    chi_square(&ranked, &probabilities)
}

#[test]
fn positions_draw_from_the_distribution() {
    let logits = zipf();
    for temperature in [0.5, 1.0, 1.7] {
        let sampler = sampler(seeded(20_240_607, temperature), IDS);
        let ratio = draws_against_softmax(&logits, temperature, |i| pick(&sampler, &logits, i));
        assert!(ratio < 1.0, "temperature {temperature}: {ratio} of the bound");
    }
}

#[test]
fn seeds_draw_from_the_distribution() {
    let logits = zipf();
    let ratio =
        draws_against_softmax(&logits, 1.0, |i| pick(&sampler(seeded(i as u64, 1.0), IDS), &logits, 100));
    assert!(ratio < 1.0, "{ratio} of the bound");
}

#[test]
fn filtered_draws_follow_the_kept_distribution() {
    let logits = zipf();
    let settings = SamplingSettings { top_k: 1000, top_p: 0.9, min_p: 1e-3, ..seeded(77, 1.0) };
    let sampler = sampler(settings, IDS);
    let kept = sampler.kept_distribution(&logits, Position(0), &History::default(), &[]).unwrap();
    let mut counts = vec![0; IDS];
    (0..DRAWS).for_each(|i| counts[pick(&sampler, &logits, i).index()] += 1);
    let (kept_counts, probabilities): (Vec<u64>, Vec<f64>) =
        kept.iter().map(|&(id, p)| (counts[id.index()], p)).unzip();
    assert_eq!(kept_counts.iter().sum::<u64>(), DRAWS as u64, "a draw that was not kept");
    let ratio = chi_square(&kept_counts, &probabilities);
    assert!(ratio < 1.0, "{ratio} of the bound");
}

/// The same check must not pass draws that are wrong.
#[test]
fn the_check_sees_a_bias() {
    let logits = zipf();
    let truncated = sampler(SamplingSettings { top_p: 0.97, ..seeded(1, 1.0) }, IDS);
    let ratio = draws_against_softmax(&logits, 1.0, |i| pick(&truncated, &logits, i));
    assert!(ratio > 1.0, "a missing tail passed with {ratio} of the bound");

    let whole = sampler(seeded(1, 1.0), IDS);
    let ratio = draws_against_softmax(&logits, 1.0, |i| pick(&whole, &logits, i / 2));
    assert!(ratio > 1.0, "noise shared by two positions passed with {ratio} of the bound");

    let warmer = sampler(seeded(1, 1.1), IDS);
    let ratio = draws_against_softmax(&logits, 1.0, |i| pick(&warmer, &logits, i));
    assert!(ratio > 1.0, "a temperature 10 % too high passed with {ratio} of the bound");
}

const FEW: usize = 16;
const PAIRED: usize = 60_000;

/// χ² of pairs of draws against the product of their distributions; neighbours are draws `i` and `i + 1`.
fn pairs_against_product(logits: &[f32], draws: impl Iterator<Item = TokenId>) -> f64 {
    let whole = sampler(seeded(0, 1.0), FEW);
    let kept = whole.kept_distribution(logits, Position(0), &History::default(), &[]).unwrap();
    let draws: Vec<usize> = draws.map(TokenId::index).collect();
    let mut counts = vec![0; FEW * FEW];
    draws.chunks_exact(2).for_each(|pair| counts[pair[0] * FEW + pair[1]] += 1);
    let probabilities: Vec<f64> =
        kept.iter().flat_map(|(_, p)| kept.iter().map(move |(_, q)| p * q)).collect();
    chi_square(&counts, &probabilities)
}

#[test]
fn neighbouring_positions_choices_and_seeds_are_independent() {
    let logits = normal_logits(8, FEW, 1.0);
    let token = |seed: u64, choice: u64, position: usize| {
        let settings = seeded(seed, 1.0).validate(FEW).unwrap();
        pick(&Sampler::new(settings, choice, Arc::new(Vocabulary::all(FEW))), &logits, position)
    };
    for (name, ratio) in [
        ("positions", pairs_against_product(&logits, (0..PAIRED).map(|i| token(9, 0, i)))),
        ("choices", pairs_against_product(&logits, (0..PAIRED).map(|i| token(9, i as u64, 3)))),
        ("seeds", pairs_against_product(&logits, (0..PAIRED).map(|i| token(i as u64, 0, 3)))),
        (
            "seed and position",
            pairs_against_product(&logits, (0..PAIRED).map(|i| token((i % 2) as u64, 0, i / 2 + i % 2))),
        ),
        (
            "choice and position",
            pairs_against_product(&logits, (0..PAIRED).map(|i| token(9, (i % 2) as u64, i / 2))),
        ),
    ] {
        assert!(ratio < 1.0, "{name}: {ratio} of the bound");
    }
    // One draw in ten repeats its neighbour's noise.
    let ratio =
        pairs_against_product(&logits, (0..PAIRED).map(|i| token(9, 0, if i % 20 == 1 { i - 1 } else { i })));
    assert!(ratio > 1.0, "correlated neighbours passed with {ratio} of the bound");
}

#[test]
fn acceptance_is_between_its_bounds() {
    const ROUNDS: usize = 3000;
    let sampler = sampler(seeded(31, 1.0), 32);
    let (mut accepted_sum, mut lower_sum) = (0.0, 0.0);
    for pair in 0..40 {
        let target = normal_logits(pair, 32, 1.5);
        let drift = normal_logits(1000 + pair, 32, 0.1 + 0.05 * pair as f32);
        let drafter: Vec<f32> = target.iter().zip(&drift).map(|(logit, drift)| logit + drift).collect();
        let distribution = |logits: &[f32]| {
            sampler.kept_distribution(logits, Position(0), &History::default(), &[]).unwrap()
        };
        let distance = distribution(&target)
            .iter()
            .zip(distribution(&drafter))
            .map(|((_, p), (_, q))| (p - q).abs() / 2.0)
            .sum::<f64>();
        let accepted = (0..ROUNDS)
            .filter(|round| {
                let position = pair as usize * ROUNDS + round;
                pick(&sampler, &drafter, position) == pick(&sampler, &target, position)
            })
            .count() as f64
            / ROUNDS as f64;
        let (lower, upper) = ((1.0 - distance) / (1.0 + distance), 1.0 - distance);
        let margin = 5.0 * (0.25 / ROUNDS as f64).sqrt();
        assert!(accepted > lower - margin, "pair {pair}: accepted {accepted}, promised {lower}");
        assert!(accepted < upper + margin, "pair {pair}: accepted {accepted}, possible {upper}");
        accepted_sum += accepted;
        lower_sum += lower;
    }
    assert!(accepted_sum > lower_sum, "accepted {accepted_sum}, promised {lower_sum}, over all pairs");
}

#[test]
fn a_drafter_that_is_the_target_is_always_accepted() {
    let logits = normal_logits(4, 500, 2.0);
    let sampler = sampler(SamplingSettings { top_p: 0.8, ..seeded(2, 1.0) }, 500);
    for position in 0..200 {
        let decision = sampler.decide(&logits, Position(position), &History::default(), &[]).unwrap();
        assert_eq!(pick(&sampler, &logits, position), decision.token);
    }
}
