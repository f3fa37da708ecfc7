//! Disk models: their difference from real drives, and their speed.

pub(crate) mod demerit;
pub(crate) mod speed;
