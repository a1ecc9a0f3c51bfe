use super::*;

/// Bits that reach both ends, both sides of the switch at ⅓, every power of two, and a spread of others.
fn spread() -> impl Iterator<Item = u32> {
    let powers = (0..32).flat_map(|shift| {
        let power = 1_u32 << shift;
        [power - 1, power, power + 1, !power, !power.wrapping_sub(1), !(power + 1)]
    });
    let switch = 0x5555_5555 - 8..0x5555_5555 + 8;
    let others = (0..400_000_u32).map(|i| hash(i) >> (i % 32));
    powers.chain(switch).chain(others.clone()).chain(others.map(|x| !x))
}

/// `−ln(−log1p(−w))` in f64, from the nearer end.
fn exact(x: u32) -> f64 {
    let centred = |x: u32| (x as f64 + 0.5) / 4_294_967_296.0;
    let e = if x < 1 << 31 { -(-centred(x)).ln_1p() } else { -centred(!x).ln() };
    -e.ln()
}

#[test]
fn both_ends_are_finite_and_where_they_should_be() {
    let ln_2 = std::f64::consts::LN_2;
    assert!((gumbel_of_bits(0) as f64 - 33.0 * ln_2).abs() < 2e-6);
    assert!((gumbel_of_bits(u32::MAX) as f64 + (33.0 * ln_2).ln()).abs() < 1e-6);
    // From the algorithm written out over exact fractions, each step rounded to f32.
    for (x, bits) in [
        (0, 0x41B6_FDA9),
        (1, 0x41AE_33B4),
        (0x5555_5554, 0x3F67_18AF),
        (0x5555_5555, 0x3F67_18B2),
        (0x7FFF_FFFF, 0x3EBB_A795),
        (0x8000_0000, 0x3EBB_A795),
        (u32::MAX - 1, 0xC045_2B66),
        (u32::MAX, 0xC048_51D5),
    ] {
        let found = gumbel_of_bits(x);
        assert_eq!(found.to_bits(), bits, "x {x:#x}: {found} is {:#x}", found.to_bits());
    }
}

#[test]
fn noise_is_accurate_everywhere() {
    let mut worst = 0.0_f64;
    for x in spread() {
        let (found, exact) = (gumbel_of_bits(x) as f64, exact(x));
        worst = worst.max((found - exact).abs() / exact.abs().max(1.0));
    }
    assert!(worst < 2.5e-7, "worst error {worst}");
}

#[test]
fn noise_falls_as_the_bits_rise() {
    let mut bits: Vec<u32> = spread().collect();
    bits.sort_unstable();
    for pair in bits.windows(2) {
        let (higher, lower) = (gumbel_of_bits(pair[0]), gumbel_of_bits(pair[1]));
        // The two halves of the algorithm meet at ⅓ with an error of their own.
        assert!(higher >= lower - 3e-7 * lower.abs().max(1.0), "{:#x} and {:#x}", pair[0], pair[1]);
    }
}

#[test]
fn the_bounds_hold_and_are_tight_in_the_tail() {
    for x in spread() {
        let (noise, bound) = (gumbel_of_bits(x), gumbel_bound(x));
        assert!(noise < bound && noise < G_MAX, "x {x:#x}: {noise} above {bound}");
        if x < u32::MAX / 100 {
            assert!(bound < noise + 0.07, "x {x:#x}: {noise} far below {bound}");
        }
    }
}

#[test]
fn known_answers() {
    // First output of SplitMix64 from state 0.
    assert_eq!(mix(PHI), 0xE220_A839_7B1D_CDAF);
    let keys = |seed, choice, position| Noise::new(Seed(seed), choice, Position(position)).keys();
    assert_eq!(keys(0, 0, 0), (0x1A2C_05EC, 0x568A_9B0B));
    assert_eq!(keys(u64::MAX, 1, 4096), (0x0495_A632, 0x9838_3537));
    let noise = Noise::new(Seed(42), 0, Position(7));
    let ids = [0, 1, 2, 250_000].map(TokenId);
    let mut out = [0.0; 4];
    noise.gumbel_into(&ids, &mut out);
    assert_eq!(out, ids.map(|id| noise.gumbel(id)));
    assert_eq!(out.map(f32::to_bits), [0xBE59_3CD9, 0x4033_6A04, 0xBEA1_C599, 0x403E_30B3]);
}

/// The 32 bits of `n` draws along one argument of the noise.
fn along(argument: &str, n: u32) -> Vec<u32> {
    let bits = |seed, choice, position, id| Noise::new(Seed(seed), choice, Position(position)).bits(id);
    (0..n)
        .map(|i| match argument {
            "seed" => bits(i as u64, 0, 5, 9),
            "choice" => bits(3, i as u64, 5, 9),
            "position" => bits(3, 0, i as usize, 9),
            _ => bits(3, 0, 5, i),
        })
        .collect()
}

const ARGUMENTS: [&str; 4] = ["seed", "choice", "position", "id"];

#[test]
fn bits_are_uniform_along_every_argument() {
    const CELLS: usize = 1024;
    let n = 1 << 18;
    for argument in ARGUMENTS {
        for shift in [0, 11, 22] {
            let mut counts = [0.0_f64; CELLS];
            for x in along(argument, n) {
                counts[(x >> shift) as usize % CELLS] += 1.0;
            }
            let expected = n as f64 / CELLS as f64;
            let statistic: f64 = counts.iter().map(|c| (c - expected).powi(2) / expected).sum();
            let freedom = (CELLS - 1) as f64;
            let deviations = (statistic - freedom) / (2.0 * freedom).sqrt();
            assert!(
                deviations.abs() < 5.5,
                "{argument}, bits from {shift}: {deviations} standard deviations"
            );
        }
    }
}

#[test]
fn neighbours_are_independent_along_every_argument() {
    let n = 1 << 18;
    for argument in ARGUMENTS {
        let bits = along(argument, n);
        for lag in [1, 2, 3, 8, 64, 256] {
            // Each of the 32 × 32 pairs of bits must agree half of the time.
            let mut agree = [[0_u32; 32]; 32];
            for (a, b) in bits.iter().zip(&bits[lag..]).take(1 << 14) {
                for (turn, row) in agree.iter_mut().enumerate() {
                    let same = !(a ^ b.rotate_right(turn as u32));
                    row.iter_mut().enumerate().for_each(|(bit, count)| *count += same >> bit & 1);
                }
            }
            let half = (1 << 13) as f64;
            for count in agree.as_flattened() {
                let deviations = (*count as f64 - half) / half.sqrt() * std::f64::consts::SQRT_2;
                assert!(deviations.abs() < 6.5, "{argument}, lag {lag}: {deviations} standard deviations");
            }
        }
    }
}

#[test]
fn the_tail_has_its_share_along_every_argument() {
    let n = 1 << 20;
    for argument in ARGUMENTS {
        let bits = along(argument, n);
        for power in 4..=16 {
            let expected = (n >> power) as f64;
            let found = bits.iter().filter(|&&x| x < 1 << (32 - power)).count() as f64;
            let deviations = (found - expected) / expected.sqrt();
            assert!(deviations.abs() < 6.0, "{argument}, 2^-{power}: {found} of {expected}");
        }
    }
}
