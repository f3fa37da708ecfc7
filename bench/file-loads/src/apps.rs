//! The applications of the paper (section 4 of *DFS: A File System for Virtualized Flash Storage*), written anew as small programs that use
//! files in the same ways.

mod images;
mod impute;
mod ngrams;
mod queries;
mod sort;

use std::io;
use std::path::Path;

use crate::machine::{TimeTaken, forget_caches, measured};

/// How much there is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppAmount {
    /// For a test: nothing that takes time.
    Tiny,
    /// Some seconds.
    Quick,
    /// Some ten seconds.
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
    /// Quicksort of a file as memory.
    Sort,
    /// A hash table of n-grams in a file, asked by threads with direct random reads, by Zipf's law.
    Ngrams,
    /// Missing values of a matrix, from the rows most like it, as memory.
    Impute,
    /// The same update of several images of machines at once.
    Images,
    /// Questions to tables, mostly by reading them from one end to the other.
    Queries,
}

impl App {
    /// All, in the paper's order.
    pub const ALL: [App; 5] = [
        App::Sort,
        App::Ngrams,
        App::Impute,
        App::Images,
        App::Queries,
    ];

    /// What the paper calls it.
    pub fn name(self) -> &'static str {
        match self {
            App::Sort => "Quick Sort",
            App::Ngrams => "N-Gram (Zipf)",
            App::Impute => "KNNImpute",
            App::Images => "VM Update",
            App::Queries => "TPC-H",
        }
    }

    /// What it does here.
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

    /// How many times as fast as on ext3 the paper found it on DFS.
    pub fn papers(self) -> f64 {
        match self {
            App::Sort => 1.54,
            App::Ngrams => 2.47,
            App::Impute => 1.22,
            App::Images => 1.07,
            App::Queries => 1.22,
        }
    }

    /// Prepares it in an empty directory, has the kernel forget what is cached, and runs it: how long the run took.
    ///
    /// # Errors
    /// Those of the system, or if what comes out is wrong.
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

/// Fails unless something came out right.
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
    fn each_comes_out_right_and_notices_what_is_damaged() {
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
