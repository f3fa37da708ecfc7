//! What the commands of the program `forebay` share, whatever they do: how they fail and with which exit code, how results
//! and progress are shown, where descriptions and sockets are, and how the daemon of a volume is asked.
//!
//! - A command either does what it was told or says in one line what is in the way ([`failure`]).
//! - Results go to stdout ([`output`]); what happens on the way goes to stderr ([`progress`]).
//!
//! Reading order: `failure.rs`, `output.rs`, `progress/`, `dirs.rs`, `run.rs`, `client.rs`, `report.rs`.

pub mod client;
pub mod dirs;
pub mod failure;
pub mod output;
pub mod progress;
pub mod report;
pub mod run;
