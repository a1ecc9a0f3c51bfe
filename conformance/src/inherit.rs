//! The macro by which a family inherits the checks.

/// The tests of a family: `conformance::suite!(name { … })` with the fields of [`crate::suite::Family`] and the golden cases.
#[macro_export]
macro_rules! suite {
    ($name:ident {
        golden: { exact: [$($exact:literal),*], reference: [$($reference:literal),*],
                  drafters: [$(($drafter:literal, $target:literal, $precision:ident)),*] },
        $($field:ident: $value:expr),* $(,)?
    }) => {
        mod $name {
            #[allow(unused_imports, reason = "the fields may be written with full paths")]
            use super::*;
            use $crate::{golden::{self, Golden}, suite::{self, Family}, Check, Failure, Scope};

            fn family() -> Family {
                Family { $($field: $value),* }
            }

            fn holds(check: impl FnOnce() -> Check) {
                if let Err(failure) = check() {
                    panic!("{failure}");
                }
            }

            #[test]
            fn golden_logits_f32() {
                holds(|| { $(golden::exact(&Golden::open($exact)?)?;)* Ok(()) });
            }

            #[test]
            fn golden_logits_of_low_precision() {
                holds(|| { $(golden::within_reference(&Golden::open($reference)?)?;)* Ok(()) });
            }

            #[test]
            fn golden_rollback() {
                holds(|| { $(golden::rollback(&Golden::open($exact)?)?;)* Ok(()) });
            }

            #[test]
            fn golden_drafts() {
                holds(|| {
                    $(golden::drafter(&Golden::open($drafter)?, &Golden::open($target)?, golden::Precision::$precision)?;)*
                    Ok(())
                });
            }

            #[test]
            fn golden_traces() {
                holds(|| {
                    $(golden::trace(&Golden::open($drafter)?, &Golden::open($target)?, golden::Precision::$precision)?;)*
                    Ok(())
                });
            }

            #[test]
            fn speculative_is_classic() {
                holds(|| family().random(suite::exactness_of));
            }

            #[test]
            fn all_settings_mixed_change_nothing() {
                holds(|| family().mixed(Scope::from_env()));
            }

            #[test]
            fn blocks_are_chains() {
                holds(|| family().random(suite::blocks_of));
            }

            #[test]
            fn rows_are_taken_back() {
                holds(|| family().random(suite::rollback_of));
            }

            #[test]
            fn states_have_the_size_of_their_blocks() {
                holds(|| family().random(suite::sizes_of));
            }

            #[test]
            fn contexts_come_in_any_pieces() {
                holds(|| family().random(suite::contexts_of));
            }

            #[test]
            fn the_registry_says_what_is_so() {
                holds(|| family().registered());
            }

            #[test]
            fn bad_input_is_refused_by_name() {
                holds(|| family().bad_input());
            }

            #[test]
            fn suppressed_ids_are_never_emitted() {
                holds(|| family().suppressed());
            }

            #[test]
            fn ends_clip_before_the_commit() {
                holds(|| family().clipping());
            }

            #[test]
            fn widths_may_change() {
                holds(|| family().random(suite::changing_widths_of));
            }

            #[test]
            fn blocks_may_be_cut() {
                holds(|| family().cuts());
            }

            #[test]
            fn company_changes_nothing() {
                holds(|| family().random(suite::company_of));
            }

            #[test]
            fn the_context_has_an_edge() {
                holds(|| family().context_edge());
            }

            #[test]
            fn misfits_are_refused() {
                holds(|| family().refusals());
            }

            #[test]
            fn the_trained_pair() {
                holds(|| family().trained(Scope::from_env()));
            }

            #[test]
            fn named_checkpoints() {
                holds(|| family().named(Scope::from_env()));
            }
        }
    };
}
