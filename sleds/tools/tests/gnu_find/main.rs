//! `sleds find` against GNU's `find`: the same output in the same order, the same messages, the
//! same exit code.

#[path = "../support/mod.rs"]
mod support;

mod command_lines;
mod costs;
mod expressions;
mod tree;
mod users;
mod walks;
