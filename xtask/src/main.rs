//! Tasks of the project, run as `cargo xtask TASK`.
//!
//! - `tidy` checks rules that neither the compiler nor clippy checks. Start in `tidy.rs`; every check is a
//!   function from the tree of tracked files to a list of problems.
//! - `sizes` prints the lengths of crates and functions, and the circles of files that use each other.
//! - `prose` counts habits that make comments and documents hard to read, by crate, or shows each place below a path.
//! - `types` lists the types whose name is a single word or shared with another type.
//! - `parameters` lists the functions that take a tuple of unlike items apart.
//! - `mutants` proves that the simulator detects faults: it breaks the code on purpose, in a copy. Start in
//!   `mutants.rs`.

mod mutants;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

const USAGE: &str = "\
usage: cargo xtask tidy
       cargo xtask sizes
       cargo xtask prose [PATH]
       cargo xtask types
       cargo xtask parameters
       cargo xtask mutants [NAME...] [--seconds N] [--seed N] [--build]";

fn main() -> ExitCode {
    let chore: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match chore.split_first() {
        Some((name, [])) if name == "tidy" => tidy::run(),
        Some((name, [])) if name == "sizes" => tidy::print_sizes(),
        Some((name, rest)) if name == "prose" && rest.len() < 2 => {
            tidy::print_prose(rest.first().map(String::as_str))
        }
        Some((name, [])) if name == "types" => tidy::print_types(),
        Some((name, [])) if name == "parameters" => tidy::print_parameters(),
        Some((name, rest)) if name == "mutants" => mutants::run(rest),
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

/// Returns the project's root. The environment is read at run time: a target directory that two checkouts share may
/// hold a program that was built in the other checkout.
fn root() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("run me by cargo xtask")?;
    let root = Path::new(&manifest).parent();
    Ok(root.context("xtask lies in the project's root")?.to_owned())
}

/// Returns every file that git tracks or would add, by its path from `root`.
fn tracked(root: &Path) -> Result<Vec<String>> {
    let list = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .context("git lists the tracked files, and could not be run")?;
    ensure!(
        list.status.success(),
        "git ls-files in {}: {}",
        root.display(),
        String::from_utf8_lossy(&list.stderr).trim()
    );
    let paths = String::from_utf8(list.stdout)?;
    Ok(paths.split_terminator('\0').map(str::to_owned).collect())
}
