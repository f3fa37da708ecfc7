//! Chores of the project, run as `cargo xtask CHORE`.
//!
//! There is one so far: `tidy`, which checks what neither the compiler nor clippy does. Start in
//! `tidy.rs`; every check is a function from the tree of tracked files to a list of problems.

mod tables;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy";

fn main() -> ExitCode {
    let chore: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match chore.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
