//! How far two rows of numbers are apart.

use crate::{Check, ensure};

/// Fails if any number of `found` is further than `tolerance` from `expected`, or is no number.
pub fn close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) -> Check {
    ensure!(found.len() == expected.len(), "{what}: {} numbers, expected {}", found.len(), expected.len());
    let (at, worst) = max_abs(found, expected);
    ensure!(
        worst <= tolerance,
        "{what}: number {at} is {}, expected {} ± {tolerance}",
        found[at],
        expected[at]
    );
    Ok(())
}

/// Fails unless both are equal bit for bit.
pub fn same_bits(what: &str, found: &[f32], expected: &[f32]) -> Check {
    ensure!(found.len() == expected.len(), "{what}: {} numbers, expected {}", found.len(), expected.len());
    let differing = found.iter().zip(expected).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    let (at, worst) = max_abs(found, expected);
    ensure!(
        differing == 0,
        "{what}: {differing} of {} numbers differ, by {worst:e} at {at} at most",
        found.len()
    );
    Ok(())
}

/// The largest difference and where it is; a NaN counts as infinitely far.
pub fn max_abs(found: &[f32], expected: &[f32]) -> (usize, f32) {
    let far = |(a, b): (&f32, &f32)| if a == b { 0.0 } else { (a - b).abs() };
    let distances = found.iter().zip(expected).map(far).map(|d| if d.is_nan() { f32::INFINITY } else { d });
    distances.enumerate().fold((0, 0.0), |worst, next| if next.1 > worst.1 { next } else { worst })
}

/// The mean difference.
pub fn mean_abs(found: &[f32], expected: &[f32]) -> f64 {
    let sum: f64 = found.iter().zip(expected).map(|(a, b)| f64::from((a - b).abs())).sum();
    sum / found.len().max(1) as f64
}

/// The lowest index of the largest number.
pub fn argmax(row: &[f32]) -> usize {
    row.iter().enumerate().fold(0, |best, (at, value)| if *value > row[best] { at } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_seen() {
        assert!(close("x", &[1.0, 2.0], &[1.0, 2.0005], 1e-3).is_ok());
        assert!(close("x", &[1.0, 2.0], &[1.0, 2.002], 1e-3).is_err());
        assert!(close("x", &[f32::NAN], &[1.0], 1e-3).is_err());
        assert!(close("x", &[1.0], &[1.0, 1.0], 1e-3).is_err());
        assert!(same_bits("x", &[0.0], &[-0.0]).is_err());
        assert!(same_bits("x", &[f32::INFINITY], &[f32::INFINITY]).is_ok());
        assert!(same_bits("x", &[1.0, f32::from_bits(1.0f32.to_bits() + 1)], &[1.0, 1.0]).is_err());
    }

    #[test]
    fn the_lowest_index_wins() {
        assert_eq!(argmax(&[0.0, 3.0, 3.0, -1.0]), 1);
    }
}
