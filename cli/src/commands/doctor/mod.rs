//! `mlxcel doctor`: what this machine and these checkpoints are, which widths may run, what they cost, and what follows.

mod advice;
mod check;
mod cost;
mod machine;
mod pair;
mod text;

use anyhow::Result;
use mlxcel_core::{
    family::Drafter,
    nn::{Executor, set_threads},
};
use serde_json::{Value, json};

use self::{check::Checks, cost::Costs, pair::Examined};
use crate::{
    args::DoctorArgs,
    error::{Quiet, explained},
    logging,
};

/// Everything that was found out.
struct Diagnosis {
    checks: Checks,
    /// Rows behind which the costs were measured, and the cost of each width.
    costs: Option<Costs>,
    widths: Vec<pair::WidthState>,
    advice: Vec<String>,
}

/// Examines the models that `args` name. What is wrong is a row of the report, and the exit code says that there is one.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<()> {
    // What the libraries warn of is in the report.
    logging::init(true);
    if let Some(threads) = args.threads {
        set_threads(threads);
    }
    let diagnosis = diagnose(args);
    let report = if args.json { format!("{:#}\n", diagnosis.json()) } else { text::report(&diagnosis) };
    super::print(&report)?;
    if diagnosis.checks.failed() { Err(Quiet::Reported.into()) } else { Ok(()) }
}

fn diagnose(args: &DoctorArgs) -> Diagnosis {
    let mut checks = Checks::default();
    machine::check(&mut checks);
    let found = checks.take("executor", args.models.executor().map_err(Into::into), |executor| {
        machine::executor(*executor)
    });
    let examined = found.and_then(|executor: Executor| pair::examine(args, executor, &mut checks));
    let Some(Examined { target, drafter, gate, widths }) = examined else {
        let advice = vec!["put right what is marked as an error above".to_owned()];
        return Diagnosis { checks, costs: None, widths: Vec::new(), advice };
    };
    let measured: Vec<_> = widths.iter().map(|width| width.width).collect();
    let drafter = drafter.as_deref();
    let spec = drafter.map(Drafter::spec);
    let costs = match cost::measure(target.as_ref(), drafter, &measured, args) {
        Ok(costs) => Some(costs),
        Err(error) => {
            let (what, hint) = explained(&error);
            checks.error("cost", what, hint);
            None
        }
    };
    let advice = advice::advise(&checks, spec, &gate, &widths, costs.as_ref());
    Diagnosis { checks, costs, widths, advice }
}

impl Diagnosis {
    fn json(&self) -> Value {
        let width = |state: &pair::WidthState| {
            let cost = self.costs.as_ref().and_then(|costs| costs.of(state.width));
            json!({
                "width": state.width.rows(),
                "used": state.used(),
                "verdict": state.verdict(),
                "verify_seconds": cost.map(|cost| cost.verify.median()),
                "draft_seconds": cost.map(|cost| cost.draft.median()),
                "classic_steps": self.costs.as_ref().and_then(|costs| costs.steps(state.width)),
            })
        };
        json!({
            "ok": !self.checks.failed(),
            "checks": self.checks.json(),
            "context": self.costs.as_ref().map(|costs| costs.context),
            "widths": self.widths.iter().map(width).collect::<Vec<_>>(),
            "advice": self.advice,
        })
    }
}
