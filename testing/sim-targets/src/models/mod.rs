//! Disk models, judged: against real drives, and for how fast they run.

pub(crate) mod demerit;
pub(crate) mod speed;
