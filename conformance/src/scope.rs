//! How much runs: a quick set by default, everything with `MLXCEL_CONFORMANCE=full`.

use mlxcel_core::Width;

use crate::say;

/// The variable that asks for everything.
pub const VARIABLE: &str = "MLXCEL_CONFORMANCE";

/// How much of a check runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A selection that takes seconds.
    Quick,
    /// Every width, prompt and seed.
    Full,
}

impl Scope {
    /// What `MLXCEL_CONFORMANCE` asks for: `full`, else quick.
    pub fn from_env() -> Self {
        match std::env::var(VARIABLE).as_deref() {
            Ok("full") => Self::Full,
            _ => Self::Quick,
        }
    }

    /// The first `quick` of `all`; says how many were left out.
    pub fn take<'a, T>(self, what: &str, all: &'a [T], quick: usize) -> &'a [T] {
        if self == Self::Full || all.len() <= quick {
            return all;
        }
        let left = all.len() - quick;
        say(format_args!("{what}: {left} of {} left out, {VARIABLE}=full runs them", all.len()));
        &all[..quick]
    }

    /// The widths 1 to `trained`, or of these 1, 2, 4, 8, 16 and the largest; says which were left out.
    pub fn widths(self, what: &str, trained: Width) -> Vec<Width> {
        let all = (1..=trained.rows()).filter_map(Width::new);
        if self == Self::Full {
            return all.collect();
        }
        let (run, left): (Vec<_>, Vec<_>) =
            all.partition(|width| width.rows().is_power_of_two() || *width == trained);
        if !left.is_empty() {
            let left: Vec<_> = left.iter().map(ToString::to_string).collect();
            say(format_args!("{what}: widths {} left out, {VARIABLE}=full runs them", left.join(" ")));
        }
        run
    }
}
