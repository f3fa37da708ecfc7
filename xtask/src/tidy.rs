//! Checks that neither the compiler nor clippy makes.
//!
//! Each check is a function from a [`ProjectTree`] (the tracked files, in memory) to a list of [`TidyProblem`]s. Checks
//! never write. The rules of a check are in a document for human readers, and are parsed from there: the crates, their
//! levels, the external dependencies and the unsafe modules in ARCHITECTURE.md, the structures in docs/format.
//!
//! Reading order: `tree.rs` and `rust.rs` (input of the checks), then any check.

mod circles;
mod contents;
mod crates;
mod docs;
mod formats;
mod habits;
mod licences;
mod limits;
mod modules;
mod names;
mod parameters;
mod paths;
mod prose;
mod ratchet;
mod rust;
mod sizes;
mod tree;
mod types;
mod unsafety;
mod unused;
mod words;

use std::fmt;

use anyhow::Result;
use ratchet::Ratchet;
use tree::ProjectTree;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TidyProblem {
    path: String,
    /// Line, counted from 1; 0 for a problem of the whole file.
    line: usize,
    text: String,
}

impl TidyProblem {
    fn new(path: &str, line: usize, text: impl Into<String>) -> TidyProblem {
        TidyProblem {
            path: path.to_owned(),
            line,
            text: text.into(),
        }
    }
}

impl fmt::Display for TidyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

/// Runs every check and prints the problems. Returns true if no problem was found.
pub(crate) fn run() -> Result<bool> {
    let tree = ProjectTree::open()?;
    let mut problems = problems(&tree)?;
    problems.sort();
    problems.dedup();
    for problem in &problems {
        eprintln!("{problem}");
    }
    match problems.len() {
        0 => println!("tidy: {} files, no problems", tree.len()),
        n => eprintln!("tidy: {n} problem(s) in {} files", tree.len()),
    }
    Ok(problems.is_empty())
}

fn problems(tree: &ProjectTree) -> Result<Vec<TidyProblem>> {
    let packages = crates::packages(tree)?;
    let (sources, mut problems) = rust::sources(tree);
    let (mut ratchet, strange) = Ratchet::of(tree);
    problems.extend(strange);
    problems.extend(crates::check(tree, &packages));
    problems.extend(contents::check(tree, &packages));
    problems.extend(licences::check(tree, &packages));
    problems.extend(unused::check(tree, &packages, &sources));
    problems.extend(sizes::check(&sources, &mut ratchet));
    problems.extend(paths::check(tree, &sources, &mut ratchet));
    problems.extend(circles::check(tree, &sources, &mut ratchet));
    problems.extend(unsafety::check(tree, &sources));
    problems.extend(habits::check(tree, &sources));
    problems.extend(formats::check(tree));
    problems.extend(docs::check(tree));
    problems.extend(names::check(tree, &sources));
    problems.extend(words::check(tree));
    problems.extend(prose::check(tree));
    problems.extend(types::check(tree, &sources));
    problems.extend(parameters::check(tree, &sources));
    problems.extend(ratchet.left());
    Ok(problems)
}

/// Prints the lengths of every crate and its functions, and all circles of files, including the permitted circles.
pub(crate) fn print_sizes() -> Result<bool> {
    let tree = ProjectTree::open()?;
    let (sources, _) = rust::sources(&tree);
    print!("{}", sizes::table(&tree, &sources));
    for circle in circles::all(&tree, &sources) {
        println!("{circle}");
    }
    Ok(true)
}

/// Prints counts of habits that make comments and documents hard to read, and with `under`, the places.
pub(crate) fn print_prose(under: Option<&str>) -> Result<bool> {
    prose::print(&ProjectTree::open()?, under);
    Ok(true)
}

/// Prints the types whose name is one word or shared.
pub(crate) fn print_types() -> Result<bool> {
    let (sources, _) = rust::sources(&ProjectTree::open()?);
    types::print(&sources);
    Ok(true)
}

/// Prints the functions that take a tuple of unlike items apart.
pub(crate) fn print_parameters() -> Result<bool> {
    let (sources, _) = rust::sources(&ProjectTree::open()?);
    parameters::print(&sources);
    Ok(true)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        assert!(super::run().unwrap(), "see the problems above");
    }
}
