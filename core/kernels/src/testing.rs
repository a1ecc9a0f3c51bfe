//! Shared by this crate's tests: bit comparison, every way to run a kernel, seeded data.

use crate::{Exec, Isa};

/// Asserts equal bits; all NaN count as equal (their payload is not promised).
pub(crate) fn same(got: &[f32], want: &[f32], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    let differs = |(a, b): (&f32, &f32)| a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan());
    if let Some(i) = got.iter().zip(want).position(differs) {
        panic!("{what}: value {i} is {:e}, expected {:e}", got[i], want[i]);
    }
}

/// Asserts that each value is within `relative · scale` of an f64 reference, `scale` the largest reference magnitude.
pub(crate) fn close(got: &[f32], want: &[f64], relative: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    let scale = want.iter().fold(1e-30, |m: f64, v| m.max(v.abs()));
    for (i, (&a, &b)) in got.iter().zip(want).enumerate() {
        assert!(
            (a as f64 - b).abs() <= relative * scale,
            "{what}: value {i} is {a:e}, expected {b:e} (scale {scale:e})"
        );
    }
}

/// Every available instruction set on one and on two threads.
pub(crate) fn ways() -> Vec<Exec> {
    Isa::available().into_iter().flat_map(|isa| [1, 2].map(|threads| Exec::new(isa, threads))).collect()
}

/// Seeded values in `[-1, 1)`, the same on every machine (SplitMix64).
pub(crate) fn noise(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}
