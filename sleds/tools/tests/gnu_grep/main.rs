//! Compares `sleds grep` with GNU's `grep`.
//!
//! `FOREBAY_SEED=N` repeats a run; `FOREBAY_CASES=N` makes a longer run.

#[path = "../support/mod.rs"]
mod support;

mod changing;
mod generate;
mod holes;
mod locales;
mod messages;
mod order;
mod patterns;
mod perl;
mod random;
