//! The option `--plan`, which every tool accepts.

use std::ffi::OsStr;

use sleds::ReadPlan;

use crate::gnu::{ToolOption, UsageError, quoted};
use crate::text;

/// Names of the plans for `--plan`.
pub const NAMES: [(&str, ReadPlan); 3] = [
    ("auto", ReadPlan::Auto),
    ("best", ReadPlan::Best),
    ("linear", ReadPlan::Linear),
];

/// Returns the row for a tool's table of options.
pub const fn option<T: Copy>(id: T) -> ToolOption<T> {
    const HELP: &str =
        "Order of reading: 'linear', 'best' (what is cheap first), or 'auto' (best where it pays)";
    ToolOption::with(id, 0, "plan", "PLAN", HELP).of_ours()
}

/// Returns the plan called `name`.
///
/// # Errors
/// If no plan has this name.
pub fn named(name: &OsStr) -> Result<ReadPlan, UsageError> {
    let plan = NAMES.iter().find(|(n, _)| *n == name);
    plan.map(|(_, plan)| *plan).ok_or_else(|| {
        let known = " (linear, best and auto are the ones there are)";
        UsageError(text!("invalid plan ", quoted(name), known))
    })
}
