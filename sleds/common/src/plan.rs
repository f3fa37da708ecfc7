//! The option `--plan`, which every tool accepts.

use std::ffi::OsStr;

use sleds::Plan;

use crate::gnu::{Opt, Usage, quoted};
use crate::text;

/// Names of the plans for `--plan`.
pub const NAMES: [(&str, Plan); 3] = [
    ("auto", Plan::Auto),
    ("best", Plan::Best),
    ("linear", Plan::Linear),
];

/// Returns the row for a tool's table of options.
pub const fn option<T: Copy>(id: T) -> Opt<T> {
    const HELP: &str =
        "Order of reading: 'linear', 'best' (what is cheap first), or 'auto' (best where it pays)";
    Opt::with(id, 0, "plan", "PLAN", HELP).of_ours()
}

/// Returns the plan called `name`.
pub fn named(name: &OsStr) -> Result<Plan, Usage> {
    let plan = NAMES.iter().find(|(n, _)| *n == name);
    plan.map(|(_, plan)| *plan).ok_or_else(|| {
        let known = " (linear, best and auto are the ones there are)";
        Usage(text!("invalid plan ", quoted(name), known))
    })
}
