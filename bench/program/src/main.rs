//! `forebay-bench`: figures of Forebay, each beside its baseline.
//!
//! Every figure is a ratio of two values that are measured alternately, in one run, on one disk: machines are shared,
//! and absolute rates drift. The cases measure the layers in one process, and print medians over rounds as rows of
//! Markdown. `paper.rs` and `dfs/` also measure the program `forebay` as users run it, and write a report with figures.
//! `docs/performance.md` holds the figures and the commands.

mod args;
mod cases;
mod dfs;
mod emulated;
mod files;
mod forebay;
mod gap;
mod load;
mod memory;
mod paper;
mod place;
mod slow;
mod space;
mod waiters;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::output;
use forebay_command_pages::ProgramPages;

use crate::args::{DfsArgs, PaperDcdArgs};
use crate::cases::BenchContext;

/// Measures Forebay, beside its baselines. Without a command, measures all cases that print rows of Markdown, which are
/// those in one process.
#[derive(Parser)]
#[command(name = "forebay-bench", version, max_term_width = 100)]
struct BenchArgs {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    command: Option<BenchCommand>,
}

#[derive(Args)]
struct CommonArgs {
    /// Directory for scratch files, on the disk to measure. Default: target/bench, with about 6 GiB of free space; for
    /// paper-dcd and dfs the parent of the scratch directory: ./target, else $TMPDIR, else /var/tmp.
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    /// Rounds; the median is printed. Not for paper-dcd and dfs [default: 5].
    #[arg(long, global = true)]
    rounds: Option<usize>,
    /// Seconds of each measurement. Not for paper-dcd and dfs [default: 2].
    #[arg(long, global = true)]
    seconds: Option<f64>,
}

#[derive(Subcommand)]
enum BenchCommand {
    #[command(flatten)]
    Case(BenchCase),
    /// Repeat the experiments of the paper that describes the write cache.
    ///
    /// Nightingale, Hu and Yang, USENIX 1999, section 4: users that untar, copy and remove files; the bandwidth of
    /// requests of each size; the maximum possible speedup and the share of it that is reached; response times; and the
    /// effect of sizes, destage orders and idle thresholds. Writes report.md and its figures, with the values of the
    /// paper beside ours. Most of it runs on a virtual clock. As root, users also work on real filesystems on emulated
    /// disks, which takes some ten minutes, or three with --quick; the rest takes one minute.
    PaperDcd(PaperDcdArgs),
    /// Compare the filesystem with others on the same disk.
    ///
    /// Measures random 4 KiB direct reads and writes by 1 to 64 threads, beside ext4, xfs, btrfs and f2fs if they are
    /// installed, the disk itself, and a FUSE file that only copies memory. Then many small files, also beside bindfs
    /// and fuse2fs; the applications of the paper that describes the filesystem (Josephson, Bongo, Flynn and Li, FAST
    /// 2010), with the values of the paper beside ours; and databases. These are MariaDB under sysbench, if both are
    /// installed, with and without its doublewrite buffer, and commits of SQLite in each of its modes, if this program
    /// was built with SQLite (feature `sqlite`). Writes report.md and its figures. Needs root, and 25 GiB of free space (29
    /// with f2fs). Takes some thirty-five minutes, or three and 7 GiB (8) with --quick.
    Dfs(DfsArgs),
    /// Print the manual page, or write the pages of all commands to a directory.
    Man {
        /// Write forebay-bench.1, forebay-bench-writes.1 and so on into this directory.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

#[derive(Subcommand, Clone, Copy, PartialEq, Eq)]
enum BenchCase {
    /// Random 4 KiB writes, beside the disk's sequential 1 MiB writes and its random 4 KiB writes.
    Writes,
    /// Write and flush, by 1 and by 32 writers, beside the disk's.
    Sync,
    /// Reads that miss, at depth 1 and 32, beside the disk's.
    Misses,
    /// A full log under continuous writes, second by second, beside the disk's random writes.
    Full,
    /// Memory of the map, and the time to recover a full 16 GiB log.
    Recovery,
    /// An emulated disk: the lateness of its answers on the wall clock, and simulated requests per second on the
    /// virtual clock.
    Emulated,
    /// Gain of a rotational offset before each record of a log on an old disk.
    Gap,
    /// Memory of the map for data in extents of several sizes, and for small discards.
    Memory,
    /// A full log before slow disks, on the virtual clock: the worst second and the longest wait.
    Slow,
    /// Processor cost of a request while 32 or 4,096 others wait, in memory.
    Waiters,
    /// Processor cost of the filesystem's operations, in memory.
    Files,
    /// A log-structured volume: fresh, read, at steady state, memory of its map, recovery after a kill.
    Space,
}

impl BenchCase {
    const ALL: [BenchCase; 12] = [
        BenchCase::Writes,
        BenchCase::Sync,
        BenchCase::Misses,
        BenchCase::Full,
        BenchCase::Recovery,
        BenchCase::Emulated,
        BenchCase::Gap,
        BenchCase::Memory,
        BenchCase::Slow,
        BenchCase::Waiters,
        BenchCase::Files,
        BenchCase::Space,
    ];

    /// Prints the rows of this case.
    fn run(self, bench: &BenchContext) -> anyhow::Result<()> {
        match self {
            BenchCase::Writes => bench.writes(),
            BenchCase::Sync => bench.sync(),
            BenchCase::Misses => bench.misses(),
            BenchCase::Full => bench.full(),
            BenchCase::Recovery => bench.recovery(),
            BenchCase::Emulated => bench.emulated(),
            BenchCase::Gap => gap::gap(),
            BenchCase::Memory => memory::memory(),
            BenchCase::Slow => slow::slow(),
            BenchCase::Waiters => waiters::waiters(bench.rounds),
            BenchCase::Files => files::files(bench.rounds),
            BenchCase::Space => bench.space(),
        }
    }
}

fn main() -> ExitCode {
    let BenchArgs { common, command } = BenchArgs::parse();
    match command {
        None => rows(&BenchCase::ALL, common),
        Some(BenchCommand::Case(case)) => rows(&[case], common),
        Some(BenchCommand::PaperDcd(args)) => ended(paper::run(args, common.of_report())),
        Some(BenchCommand::Dfs(args)) => ended(dfs::run(args, common.of_report())),
        Some(BenchCommand::Man { out }) => ended(man(out.as_deref())),
    }
}

impl CommonArgs {
    /// Returns the directory for a command that writes a report. Ends the program if an option was given that only
    /// cases have.
    fn of_report(self) -> Option<PathBuf> {
        if self.rounds.is_some() || self.seconds.is_some() {
            let text = "--rounds and --seconds are not for commands that write a report";
            let error = BenchArgs::command().error(ErrorKind::ArgumentConflict, text);
            error.exit();
        }
        self.dir
    }
}

/// Prints the manual page, or writes the pages of all commands to `dir`.
fn man(dir: Option<&Path>) -> CommandResult {
    let pages = ProgramPages {
        source: concat!("Forebay ", env!("CARGO_PKG_VERSION")),
        shared: &[],
        related: &["forebay(1)"],
    };
    let Some(dir) = dir else {
        let page = pages.page(BenchArgs::command());
        return output::all(&page.map_err(CommandFailure::general)?);
    };
    let written = pages.write(BenchArgs::command(), dir);
    written.map_err(|error| {
        CommandFailure::io(format!("cannot write pages to {}: {error}", dir.display()))
    })
}

/// Prints the rows of cases.
fn rows(cases: &[BenchCase], common: CommonArgs) -> ExitCode {
    let bench = BenchContext {
        dir: common.dir.unwrap_or_else(|| "target/bench".into()),
        rounds: common.rounds.unwrap_or(5).max(1),
        seconds: common.seconds.unwrap_or(2.0),
    };
    let print = || -> anyhow::Result<()> {
        std::fs::create_dir_all(&bench.dir)?;
        println!("| bar | figure | compared with | ratio |\n|---|---|---|---|");
        cases.iter().try_for_each(|case| case.run(&bench))
    };
    match print() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the failure of a command, if any. Returns the exit code.
fn ended(result: CommandResult) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(CommandFailure { code, text }) => {
            eprintln!("forebay-bench: {text}");
            ExitCode::from(code as u8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_cases_come_before_or_behind_the_case() {
        BenchArgs::command().debug_assert();
        for text in ["--dir d --rounds 3 writes", "writes --dir d --rounds 3"] {
            let words = std::iter::once("forebay-bench").chain(text.split(' '));
            let args = BenchArgs::parse_from(words);
            assert_eq!(args.common.dir, Some("d".into()), "{text}");
            assert_eq!(args.common.rounds, Some(3), "{text}");
        }
    }
}
