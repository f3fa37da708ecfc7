//! The applications of the paper (section 4 of *DFS: A File System for Virtualized Flash Storage*), rewritten as small
//! programs that use files in the same way.

mod images;
mod impute;
mod ngrams;
mod queries;
mod sort;

use std::io;
use std::path::Path;

use crate::machine::{TimeTaken, forget_caches, measured};

/// Amount of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppAmount {
    /// For a test: takes almost no time.
    Tiny,
    /// Some seconds.
    Quick,
    /// Some tens of seconds.
    Full,
}

impl AppAmount {
    fn of<T>(self, tiny: T, quick: T, full: T) -> T {
        match self {
            AppAmount::Tiny => tiny,
            AppAmount::Quick => quick,
            AppAmount::Full => full,
        }
    }
}

/// An application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum App {
    /// Quicksort of a memory-mapped file.
    Sort,
    /// A hash table of n-grams in a file. Threads query the table with direct random reads, by Zipf's law.
    Ngrams,
    /// Missing values of a matrix, estimated from the most similar rows of a memory-mapped file.
    Impute,
    /// One update of several virtual machine images at once.
    Images,
    /// Queries on tables, mostly with sequential scans.
    Queries,
}

impl App {
    /// All applications, in the paper's order.
    pub const ALL: [App; 5] = [
        App::Sort,
        App::Ngrams,
        App::Impute,
        App::Images,
        App::Queries,
    ];

    /// Returns the paper's name of the application.
    pub fn name(self) -> &'static str {
        match self {
            App::Sort => "Quick Sort",
            App::Ngrams => "N-Gram (Zipf)",
            App::Impute => "KNNImpute",
            App::Images => "VM Update",
            App::Queries => "TPC-H",
        }
    }

    /// Returns a description of the work.
    pub fn does(self) -> &'static str {
        match self {
            App::Sort => "quicksort of a mapped file of numbers, then `msync`",
            App::Ngrams => {
                "a hash table in a file, direct reads of 4 KiB by 8 threads, by Zipf's law"
            }
            App::Impute => "missing values of a mapped matrix from the 10 rows nearest to each",
            App::Images => {
                "4 images read and partly rewritten at once, directly in 64 KiB, `fsync` every 4 MiB"
            }
            App::Queries => {
                "a table read from end to end three times: sums by groups, a filter, a join by hash"
            }
        }
    }

    /// Returns the paper's ratio: the speed on DFS divided by the speed on ext3.
    pub fn papers(self) -> f64 {
        match self {
            App::Sort => 1.54,
            App::Ngrams => 2.47,
            App::Impute => 1.22,
            App::Images => 1.07,
            App::Queries => 1.22,
        }
    }

    /// Prepares the application in an empty directory, makes the kernel drop its caches, and runs the application.
    /// Returns the time of the run.
    ///
    /// # Errors
    /// System errors, and an incorrect result.
    pub fn run(self, dir: &Path, amount: AppAmount) -> io::Result<TimeTaken> {
        match self {
            App::Sort => on(dir, amount, sort::prepare, sort::run),
            App::Ngrams => on(dir, amount, ngrams::prepare, ngrams::run),
            App::Impute => on(dir, amount, impute::prepare, impute::run),
            App::Images => on(dir, amount, images::prepare, images::run),
            App::Queries => on(dir, amount, queries::prepare, queries::run),
        }
    }
}

fn on(
    dir: &Path,
    amount: AppAmount,
    prepare: fn(&Path, AppAmount) -> io::Result<()>,
    run: fn(&Path, AppAmount) -> io::Result<()>,
) -> io::Result<TimeTaken> {
    prepare(dir, amount)?;
    if amount != AppAmount::Tiny {
        forget_caches();
    }
    let ((), took) = measured(|| run(dir, amount))?;
    Ok(took)
}

/// Returns an error if `right` is false.
fn must(right: bool, what: &str) -> io::Result<()> {
    if right {
        Ok(())
    } else {
        Err(io::Error::other(format!("{what} came out wrong")))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn every_application_gives_correct_results() {
        for app in App::ALL {
            let dir = tempfile::tempdir().unwrap();
            match app.run(dir.path(), AppAmount::Tiny) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(22) => {
                    let name = app.name();
                    let why = format!("SKIPPED: {name}: no direct I/O here: {error}\n");
                    std::io::stderr().write_all(why.as_bytes()).unwrap();
                }
                Err(error) => panic!("{}: {error}", app.name()),
            }
        }
    }
}
