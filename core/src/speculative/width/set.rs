//! The widths that may be used.

use crate::Width;

/// Widths that are tried, where a drafter goes that far.
const STEPS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// The widths that a pair may use: in order, 1 always among them. Whoever knows that a width is not exact leaves it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WidthSet(Vec<Width>);

impl WidthSet {
    /// The usual steps up to `trained`, and `trained` itself.
    pub fn up_to(trained: Width) -> Self {
        STEPS
            .iter()
            .filter_map(|&rows| Width::new(rows))
            .filter(|&width| width < trained)
            .chain([trained])
            .collect()
    }

    /// The set without the widths that `keep` refuses; 1 stays.
    #[must_use]
    pub fn filter(&self, keep: impl Fn(Width) -> bool) -> Self {
        self.0.iter().copied().filter(|&width| keep(width)).collect()
    }

    /// The widths, ascending; the first is 1.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Width> + '_ {
        self.0.iter().copied()
    }

    /// The largest width of at most `rows` rows.
    pub fn at_most(&self, rows: usize) -> Width {
        self.iter().rev().find(|width| width.rows() <= rows).unwrap_or(Width::ONE)
    }

    /// The widest.
    pub fn widest(&self) -> Width {
        self.at_most(usize::MAX)
    }
}

impl FromIterator<Width> for WidthSet {
    fn from_iter<I: IntoIterator<Item = Width>>(widths: I) -> Self {
        let mut all: Vec<Width> = [Width::ONE].into_iter().chain(widths).collect();
        all.sort_unstable();
        all.dedup();
        Self(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(set: &WidthSet) -> Vec<usize> {
        set.iter().map(Width::rows).collect()
    }

    #[test]
    fn one_is_always_there() {
        let set = WidthSet::up_to(Width::new(10).unwrap_or(Width::ONE));
        assert_eq!(rows(&set), [1, 2, 3, 4, 6, 8, 10]);
        assert_eq!(rows(&set.filter(|width| width.rows() == 6)), [1, 6]);
        assert_eq!(rows(&WidthSet::up_to(Width::ONE)), [1]);
        assert_eq!((set.at_most(7).rows(), set.at_most(0).rows(), set.widest().rows()), (6, 1, 10));
    }
}
