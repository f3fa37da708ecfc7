//! `sleds wc` against GNU's `wc`.

#[path = "../support/mod.rs"]
mod support;

mod messages;
