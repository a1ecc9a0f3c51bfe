//! What the gate lets run, as clients read it. Names are promises: add, never rename.

use serde::Serialize;

use super::{Difference, Refusal, Verdict};
use crate::speculative::Decline;

/// All verdicts of a gate. Serialised: `allow_inexact`, and `widths` in ascending order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdicts {
    /// Whether widths run that differ, or of which nothing is known.
    pub allow_inexact: bool,
    /// A verdict a width. Width 1 needs none.
    pub widths: Vec<WidthVerdict>,
}

/// The verdict on blocks of one width. `decline`, `decline_reason` and `inexact` are what the report of a request says that
/// meets it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WidthVerdict {
    /// Rows of the block.
    pub width: usize,
    /// Whether it may run.
    pub allowed: bool,
    /// What the verdict rests on: [`Verdict::basis`].
    pub basis: &'static str,
    /// Rows of the longest context that it was probed behind, `None` if it was not. Behind more than that it is probed again
    /// first, unless it is exact by construction.
    pub longest: Option<usize>,
    /// Why it is not known to be exact, by its code: [`Refusal::code`]. `None` if it is.
    pub refusal: Option<&'static str>,
    /// Where it was seen to differ.
    pub difference: Option<Difference>,
    /// Why it is not used; `None` if it is.
    pub decline: Option<Decline>,
    /// The same in words.
    pub decline_reason: Option<String>,
    /// What `--allow-inexact` passes over, if it does.
    pub inexact: Option<String>,
}

impl WidthVerdict {
    pub(super) fn new(verdict: &Verdict, allow_inexact: bool) -> Self {
        let refusal = verdict.check(0).err();
        let decline = refusal.filter(|_| !allow_inexact).map(Decline::Exactness);
        Self {
            width: verdict.width.rows(),
            allowed: decline.is_none(),
            basis: verdict.basis(),
            longest: verdict.longest,
            refusal: refusal.map(Refusal::code),
            difference: verdict.difference,
            decline,
            decline_reason: decline.map(|decline| decline.to_string()),
            inexact: refusal.filter(|_| allow_inexact).map(|refusal| refusal.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Width,
        exactness::{Place, What},
    };

    fn verdicts(allow_inexact: bool) -> Verdicts {
        let width = |rows| Width::new(rows).unwrap();
        let what = What::LogitBytes { differing: 3, of: 4096 };
        let differs = Difference { width: width(4), place: Place::WindowEdge, context: 127, what };
        let known = [
            (2, true, None, None),
            (3, false, Some(512), None),
            (4, false, Some(128), Some(differs)),
            (8, false, None, None),
        ];
        let verdict = |(rows, by_construction, longest, difference)| {
            let verdict = Verdict { width: width(rows), by_construction, longest, difference };
            WidthVerdict::new(&verdict, allow_inexact)
        };
        Verdicts { allow_inexact, widths: known.map(verdict).into() }
    }

    #[test]
    fn clients_read_these_names() {
        insta::assert_json_snapshot!(verdicts(false));
    }

    #[test]
    fn an_override_is_said_of_every_width_that_it_lets_run() {
        let widths = verdicts(true).widths;
        assert!(widths.iter().all(|width| width.allowed && width.decline.is_none()));
        let passed: Vec<_> = widths.iter().map(|width| width.inexact.as_deref()).collect();
        assert_eq!(
            passed,
            [None, None, Some("width 4 differs in 3 of 4096 logit bytes"), Some("width 8 was not probed")]
        );
    }
}
