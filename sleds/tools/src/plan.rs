//! `--plan`, which every tool takes.

use std::ffi::OsStr;

use sleds::Plan;

use crate::gnu::{Arg, Opt, Usage, quoted};

/// What `--plan` calls the plans.
pub(crate) const NAMES: [(&str, Plan); 3] = [
    ("auto", Plan::Auto),
    ("best", Plan::Best),
    ("linear", Plan::Linear),
];

/// The row for a tool's table of options.
pub(crate) const fn option<T>(id: T) -> Opt<T> {
    Opt {
        id,
        short: None,
        long: Some("plan"),
        arg: Arg::Required("PLAN"),
        help: "Order of reading: 'linear', 'best' (what is cheap first), or 'auto' (best where it pays)",
        ours: true,
    }
}

/// The plan called `name`.
pub(crate) fn named(name: &OsStr) -> Result<Plan, Usage> {
    let plan = NAMES.iter().find(|(n, _)| *n == name);
    plan.map(|(_, plan)| *plan).ok_or_else(|| {
        let mut text = b"invalid plan ".to_vec();
        text.extend_from_slice(&quoted(name));
        text.extend_from_slice(b" (linear, best and auto are the ones there are)");
        Usage(text)
    })
}
