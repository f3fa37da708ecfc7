//! The program that `scripts/test-vm` and `scripts/bench-peers` run inside their virtual machine, besides the system's
//! own programs.
//!
//! `write` and `verify` use a filesystem. Each act of a writer follows from a seed, and the writer records durably how
//! many acts `fsync` has completed. So after a crash of the machine, `verify` can compute the required content
//! ([`acts`], [`ledger`], [`writers`], [`promises`]). `points` and `replay` read the log that `dm-log-writes` has
//! recorded of a device ([`write_log`]). `stamp` and `stamped` do the equivalent for the layer under a filesystem:
//! `stamp` writes blocks in a known order, and `stamped` checks the order afterwards ([`stamps`]).

mod acts;
mod ledger;
mod promises;
mod stamps;
mod write_log;
mod writers;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use acts::WriterPlan;
use ledger::Ledger;
use stamps::{PaceArgs, StampArgs};

#[derive(Parser)]
#[command(name = "forebay-guest")]
struct GuestCli {
    #[command(subcommand)]
    command: GuestCommand,
}

/// Writers, and their ledger.
#[derive(Args)]
struct WriterArgs {
    /// Parent directory of the writers' directories.
    dir: PathBuf,
    /// The ledger: a file, or a device that outlives the machine.
    ledger: PathBuf,
    /// Seed of all acts.
    #[arg(long, default_value_t = 1999)]
    seed: u64,
    /// Number of concurrent writers.
    #[arg(long, default_value_t = 3)]
    writers: u64,
}

impl WriterArgs {
    fn plans(&self) -> Vec<WriterPlan> {
        (0..self.writers)
            .map(|writer| WriterPlan::new(self.seed, writer))
            .collect()
    }
}

#[derive(Subcommand)]
enum GuestCommand {
    /// Create and overwrite files, with fsync after each act; continues after the acts in the ledger.
    ///
    /// Ends with an error when a writer meets an error.
    Write {
        #[command(flatten)]
        users: WriterArgs,
        /// Acts of each writer, including those of earlier runs; without limit if not given.
        #[arg(long)]
        acts: Option<u64>,
    },
    /// Compare the files with the durable acts.
    Verify {
        #[command(flatten)]
        users: WriterArgs,
        /// Durable acts of each writer, in place of the counts in the ledger.
        #[arg(long)]
        promised: Option<u64>,
        /// Acts after those that may have been done in part.
        #[arg(long, default_value_t = 1)]
        open: u64,
        /// Minimum number of durable acts in total.
        #[arg(long, default_value_t = 1)]
        least: u64,
    },
    /// List the places in a dm-log-writes log at which data was made durable: NUMBER WHAT.
    Points {
        /// The device that contains the log.
        log: PathBuf,
    },
    /// Bring a device to the state it had at an entry of a dm-log-writes log.
    Replay {
        /// The device that contains the log.
        log: PathBuf,
        /// The device to write.
        target: PathBuf,
        /// The first entry to apply.
        #[arg(long)]
        from: u64,
        /// The last entry to apply.
        #[arg(long)]
        to: u64,
    },
    /// Write numbered blocks to a device, one after the other.
    ///
    /// Prints how many writes were acknowledged and flushed, and the error that ended the command, if any.
    Stamp {
        /// The device to write.
        device: PathBuf,
        /// The ledger, which records the number of flushed writes.
        ledger: PathBuf,
        #[command(flatten)]
        stamps: StampArgs,
        #[command(flatten)]
        pace: PaceArgs,
    },
    /// Check which of these blocks are left on a device.
    Stamped {
        /// The device to read.
        device: PathBuf,
        /// The ledger, which records the number of flushed writes.
        ledger: PathBuf,
        #[command(flatten)]
        stamps: StampArgs,
        /// Offset of the blocks on the device, in bytes.
        #[arg(long, default_value_t = 0)]
        offset: u64,
    },
}

fn main() -> ExitCode {
    match run(GuestCli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-guest: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: GuestCommand) -> Result<()> {
    match command {
        GuestCommand::Write { users, acts } => {
            let ledger = Ledger::open(&users.ledger)?;
            let done = writers::write(&users.dir, users.plans(), &ledger, acts)?;
            println!("{done} acts done");
        }
        GuestCommand::Verify {
            users,
            promised,
            open,
            least,
        } => {
            let counts = match promised {
                Some(count) => vec![count; users.writers as usize],
                None => Ledger::open(&users.ledger)?.counts(users.writers)?,
            };
            let found = promises::verify(&users.dir, &users.plans(), &counts, open)?;
            println!("{}", found.judged(least)?);
        }
        GuestCommand::Points { log } => {
            for point in write_log::points(&log)? {
                println!("{point}");
            }
        }
        GuestCommand::Replay {
            log,
            target,
            from,
            to,
        } => println!("{}", write_log::replay(&log, &target, from..=to)?),
        GuestCommand::Stamp {
            device,
            ledger,
            stamps,
            pace,
        } => println!("{}", stamps.write(&device, &Ledger::open(&ledger)?, pace)?),
        GuestCommand::Stamped {
            device,
            ledger,
            stamps,
            offset,
        } => {
            let promised = Ledger::open(&ledger)?.count(0)?;
            println!("{}", stamps.check(&device, promised, offset)?);
        }
    }
    Ok(())
}
