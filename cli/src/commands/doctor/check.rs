//! Rows of the report: what was looked at, and what is wrong with it.

use anyhow::Result;
use serde_json::{Value, json};

use crate::error::explained;

/// What was looked at, in order.
#[derive(Debug, Default)]
pub(super) struct Checks(pub(super) Vec<Check>);

/// One thing that was looked at.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    /// Whether it is as it should be.
    pub(super) fine: bool,
    pub(super) what: String,
    pub(super) hint: Option<String>,
}

impl Checks {
    pub(super) fn note(&mut self, name: &'static str, what: impl Into<String>) {
        self.0.push(Check { name, fine: true, what: what.into(), hint: None });
    }

    pub(super) fn error(&mut self, name: &'static str, what: impl Into<String>, hint: Option<String>) {
        self.0.push(Check { name, fine: false, what: what.into(), hint });
    }

    /// Notes what a result is, or the error that it is.
    pub(super) fn take<T>(
        &mut self,
        name: &'static str,
        result: Result<T>,
        describe: impl FnOnce(&T) -> String,
    ) -> Option<T> {
        match result {
            Ok(value) => {
                self.note(name, describe(&value));
                Some(value)
            }
            Err(error) => {
                let (what, hint) = explained(&error);
                self.error(name, what, hint);
                None
            }
        }
    }

    /// Whether anything is wrong.
    pub(super) fn failed(&self) -> bool {
        self.0.iter().any(|check| !check.fine)
    }

    pub(super) fn json(&self) -> Value {
        let check = |check: &Check| json!({ "name": check.name, "ok": check.fine, "what": check.what, "hint": check.hint });
        self.0.iter().map(check).collect()
    }
}
