//! Which keys a query sees: always one interval of absolute positions.

use std::ops::Range;

/// Key `j` is visible to query `i` iff `i - j <= back` and `j - i <= ahead` (absolute positions).
///
/// Every mask of the supported architectures and drafters has this form, so a row's keys are one interval and a
/// kernel never needs a mask matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask {
    /// How far back a query sees; `usize::MAX` = everything before it.
    pub back: usize,
    /// How far ahead a query sees; `usize::MAX` = everything after it.
    pub ahead: usize,
}

impl Mask {
    /// A query sees itself and everything before it.
    pub const CAUSAL: Self = Self { back: usize::MAX, ahead: 0 };
    /// A query sees every key (block rows of a full-attention drafter: the context and the whole block).
    pub const ALL: Self = Self { back: usize::MAX, ahead: usize::MAX };

    /// Causal sliding window: `0 <= i - j < window`, the query itself included.
    ///
    /// # Panics
    /// If `window` is 0: a query would see nothing.
    pub const fn window(window: usize) -> Self {
        assert!(window > 0, "a sliding window of 0 keys");
        Self { back: window - 1, ahead: 0 }
    }

    /// Bidirectional sliding window without its end: `|i - j| < window` (DFlash sliding layers, not causal).
    ///
    /// # Panics
    /// If `window` is 0.
    pub const fn within(window: usize) -> Self {
        assert!(window > 0, "a sliding window of 0 keys");
        Self { back: window - 1, ahead: window - 1 }
    }

    /// Bidirectional sliding window with its end: `|i - j| <= reach` (Muse assistant).
    pub const fn within_inclusive(reach: usize) -> Self {
        Self { back: reach, ahead: reach }
    }

    /// The keys that a query at `position` sees among the keys at `keys` (may be empty).
    pub fn visible(self, position: usize, keys: Range<usize>) -> Range<usize> {
        let start = position.saturating_sub(self.back).max(keys.start);
        let end = position.saturating_add(self.ahead).saturating_add(1).min(keys.end);
        start..end.max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_the_inequalities() {
        type Sees = fn(i64) -> bool;
        let masks: [(Mask, Sees); 5] = [
            (Mask::CAUSAL, |d| d >= 0),
            (Mask::ALL, |_| true),
            (Mask::window(5), |d| (0..5).contains(&d)),
            (Mask::within(5), |d| d.abs() < 5),
            (Mask::within_inclusive(5), |d| d.abs() <= 5),
        ];
        for (mask, sees) in masks {
            for keys in [0..40, 7..23, 3..3] {
                for query in 0..45_usize {
                    let want: Vec<usize> = keys.clone().filter(|&j| sees(query as i64 - j as i64)).collect();
                    let got: Vec<usize> = mask.visible(query, keys.clone()).collect();
                    assert_eq!(got, want, "{mask:?} query {query} keys {keys:?}");
                }
            }
        }
    }
}
