//! What `scripts/test-vm` and `scripts/bench-peers` run inside their virtual machine, besides the
//! system's own programs.
//!
//! `write` and `verify` are users of a filesystem whose every act follows from a seed, and who note
//! durably how many of them `fsync` has promised. So whatever happens to the machine in between, it
//! can be said afterwards what must be there ([`acts`], [`ledger`], [`writers`], [`promises`]).
//! `points` and `replay` read what `dm-log-writes` has recorded of a device ([`write_log`]). `stamp` and
//! `stamped` are the same as users for what is under a filesystem: one writes blocks in an order that can
//! be told afterwards, the other tells it ([`stamps`]).

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

/// Who writes, and where they note what was promised.
#[derive(Args)]
struct WriterArgs {
    /// Where each writer has a directory.
    dir: PathBuf,
    /// The ledger: a file, or a device that outlives the machine.
    ledger: PathBuf,
    /// The number that everything is made from.
    #[arg(long, default_value_t = 1999)]
    seed: u64,
    /// How many write at once.
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
    /// Create and overwrite files, with fsync after each act; goes on where the ledger says.
    ///
    /// Ends with an error when a writer meets one.
    Write {
        #[command(flatten)]
        users: WriterArgs,
        /// How many acts each writer does, those of earlier runs among them; without end if not given.
        #[arg(long)]
        acts: Option<u64>,
    },
    /// Compare what is there with what was promised.
    Verify {
        #[command(flatten)]
        users: WriterArgs,
        /// Acts that were promised of each writer, in place of what the ledger says.
        #[arg(long)]
        promised: Option<u64>,
        /// Acts after those that may have been done in part.
        #[arg(long, default_value_t = 1)]
        open: u64,
        /// The least that must have been promised in all.
        #[arg(long, default_value_t = 1)]
        least: u64,
    },
    /// List the places in a dm-log-writes log at which something was made durable: NUMBER WHAT.
    Points {
        /// The device that was logged to.
        log: PathBuf,
    },
    /// Bring a device to the state it had at an entry of a dm-log-writes log.
    Replay {
        /// The device that was logged to.
        log: PathBuf,
        /// The device that is written.
        target: PathBuf,
        /// The first entry that is applied.
        #[arg(long)]
        from: u64,
        /// The last.
        #[arg(long)]
        to: u64,
    },
    /// Write blocks of a device that say when they were written, one after the other.
    ///
    /// Says how many were acknowledged and flushed, and the error that ended it, if one did.
    Stamp {
        /// What is written to.
        device: PathBuf,
        /// Where it is noted what was flushed.
        ledger: PathBuf,
        #[command(flatten)]
        stamps: StampArgs,
        #[command(flatten)]
        pace: PaceArgs,
    },
    /// Say what of that is left on a device.
    Stamped {
        /// What is read.
        device: PathBuf,
        /// Where it was noted what was flushed.
        ledger: PathBuf,
        #[command(flatten)]
        stamps: StampArgs,
        /// Where on the device the blocks begin, in bytes.
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
