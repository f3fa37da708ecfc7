//! Compares `sleds find` with GNU's `find`: output and its order, messages, and exit code.

#[path = "../support/mod.rs"]
mod support;

mod command_lines;
mod costs;
mod expressions;
mod tree;
mod users;
mod walks;
