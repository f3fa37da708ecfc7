//! Code that all commands of the program `forebay` share: failures and exit codes, output of results and progress,
//! paths of configuration files and sockets, and the client of a volume's daemon.
//!
//! - A command either succeeds, or reports the obstacle in one line ([`failure`]).
//! - Results go to stdout ([`output`]); progress goes to stderr ([`progress`]).
//!
//! Reading order: `failure.rs`, `output.rs`, `progress/`, `dirs.rs`, `run.rs`, `client.rs`, `report.rs`.

pub mod client;
pub mod dirs;
pub mod failure;
pub mod output;
pub mod progress;
pub mod report;
pub mod run;
