//! `mlxcel prove`: classic and speculative answers to the same prompts, in turn: are the tokens equal, and what does it gain?

mod arms;
mod divergence;
mod interval;
mod prompts;
mod report;

use anyhow::Result;
use mlxcel_core::nn::set_threads;

use crate::{
    args::ProveArgs,
    error::{Quiet, Usage},
    exactness,
    learning::Learning,
    load::Loaded,
    logging,
    notes::Notes,
};

/// Compares both ways of decoding on the prompts that `args` name.
pub(crate) fn prove(args: &ProveArgs) -> Result<()> {
    logging::init(false);
    if let Some(threads) = args.threads {
        set_threads(threads);
    }
    if !args.models.names_drafter() {
        let nothing = "there is nothing to compare without a drafter\nhint: name one with --draft-model";
        return Err(Usage::new(nothing).into());
    }
    let settings = arms::settings(args)?;
    let prompts = prompts::read(args.prompts.as_deref())?;
    let width = args.speculation.draft_block_size;
    let mut loaded = Loaded::load(&args.models, &args.exactness, width, args.threads, false)?;
    let mut learning = Learning::open(&args.speculation.evidence, loaded.key.clone());
    loaded.evidence = learning.evidence();
    let notes = Notes { quiet: false };
    if let Some(note) = exactness::note(&loaded.gate) {
        notes.line(&note);
    }
    let prompts = prompts::ids(prompts, &loaded.text, args.chat)?;
    let proof = arms::compare(&loaded, &prompts, &settings, args, notes)?;
    learning.keep();
    let report = if args.json { format!("{:#}\n", report::json(&proof)) } else { report::text(&proof) };
    super::print(&report)?;
    if proof.equal() { Ok(()) } else { Err(Quiet::Reported.into()) }
}

#[cfg(all(test, feature = "demo"))]
mod tests {
    use clap::Parser as _;
    use mlxcel_core::{
        Width,
        exactness::Gate,
        family::{Output, Segment, Target, TargetSpec},
        nn::{Embedding, Executor, Linear, Tensor},
        state::SequenceState,
    };

    use super::*;
    use crate::args::{Cli, Command};

    /// A target that never takes its best token in the last row of a block of several rows.
    struct Spoilt(Box<dyn Target>);

    impl Target for Spoilt {
        fn spec(&self) -> &TargetSpec {
            self.0.spec()
        }

        fn new_state(&self, slack: Width) -> SequenceState {
            self.0.new_state(slack)
        }

        fn forward(&self, segments: &mut [Segment<'_>]) -> mlxcel_core::Result<Vec<Output>> {
            let block = segments[0].state.is_open() && segments[0].tokens.len() > 1;
            let mut outputs = self.0.forward(segments)?;
            if let Some(logits) = outputs[0].logits.as_mut().filter(|_| block) {
                let (rows, width) = (logits.rows(), logits.width());
                let mut values = logits.to_host()?.into_owned();
                let last = &mut values[(rows - 1) * width..];
                let best = (0..width).max_by(|a, b| last[*a].total_cmp(&last[*b])).unwrap_or(0);
                last[best] = -100.0;
                *logits = Tensor::from_host(&values, rows, width, Executor::Cpu)?;
            }
            Ok(outputs)
        }

        fn embedding(&self) -> Embedding {
            self.0.embedding()
        }

        fn head(&self) -> Linear {
            self.0.head()
        }
    }

    #[test]
    fn tokens_that_differ_are_told() {
        let line =
            ["mlxcel", "prove", "-n", "40", "--repeat", "1", "--executor", "cpu", "--draft-block-size", "2"];
        let Command::Prove(args) = Cli::try_parse_from(line).unwrap().command else {
            panic!("another command")
        };
        let settings = arms::settings(&args).unwrap();
        let mut loaded = Loaded::load(&args.models, &args.exactness, Width::new(2), None, false).unwrap();
        let given = prompts::read(None).unwrap().into_iter().take(2).collect();
        let prompts = prompts::ids(given, &loaded.text, args.chat).unwrap();
        let compare = |loaded: &Loaded| {
            arms::compare(loaded, &prompts, &settings, &args, Notes { quiet: true }).unwrap()
        };
        assert!(compare(&loaded).equal());
        loaded.target = Box::new(Spoilt(loaded.target));
        loaded.gate = Gate::unguarded().clone();
        let proof = compare(&loaded);
        assert!(!proof.equal());
        let outcome = &proof.settings[0].prompts[0];
        let divergence = outcome.divergence.unwrap();
        assert_ne!(divergence.classic, divergence.speculative);
        assert!(divergence.margin > 0.0 && divergence.at < 40, "{divergence:?}");
        let text = report::text(&proof);
        assert!(text.contains(&format!("DIFFER at token {}: ", divergence.at)), "{text}");
        assert!(text.contains("ids equal on 0 of 2 prompts"), "{text}");
        assert_eq!(report::json(&proof)["settings"][0]["prompts"][0]["divergence"]["at"], divergence.at);
        // The gate would not have let it happen.
        loaded.gate = Gate::open(
            loaded.target.as_ref(),
            mlxcel_core::exactness::Setup {
                probe: mlxcel_core::exactness::Probe::Full,
                ..mlxcel_core::exactness::Setup::new(
                    Executor::Cpu,
                    loaded.vocabulary.clone(),
                    vec![Width::new(2).unwrap()],
                )
            },
        );
        assert!(compare(&loaded).equal());
    }
}
