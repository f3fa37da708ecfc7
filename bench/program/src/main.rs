//! `forebay-bench`: figures of the write cache in one process, each beside its baseline.
//!
//! Every figure is a ratio of two values that are measured alternately, in one run, on one disk: machines are shared,
//! and absolute rates drift. Medians over rounds are printed as rows of Markdown. `docs/performance.md` holds the
//! figures and the commands.

mod cases;
mod emulated;
mod files;
mod gap;
mod load;
mod memory;
mod place;
mod slow;
mod space;
mod waiters;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::cases::BenchContext;

/// Measures the write cache in one process, beside its data device.
#[derive(Parser)]
#[command(version)]
struct CacheBenchArgs {
    /// Directory for scratch files, on the disk to measure, with about 6 GiB of free space.
    #[arg(long, default_value = "target/bench", global = true)]
    dir: PathBuf,
    /// Rounds; the median is printed.
    #[arg(long, default_value_t = 5, global = true)]
    rounds: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 2.0, global = true)]
    seconds: f64,
    #[command(subcommand)]
    case: Option<BenchCase>,
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

fn main() -> anyhow::Result<()> {
    let arguments = CacheBenchArgs::parse();
    std::fs::create_dir_all(&arguments.dir)?;
    let bench = BenchContext {
        dir: arguments.dir,
        rounds: arguments.rounds.max(1),
        seconds: arguments.seconds,
    };
    println!("| bar | figure | compared with | ratio |\n|---|---|---|---|");
    for case in BenchCase::ALL {
        if arguments.case.is_none_or(|one| one == case) {
            case.run(&bench)?;
        }
    }
    Ok(())
}
