//! `forebay-fuzz`: gives hostile bytes to the decoders, on stable Rust, for any length of time.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use forebay_fuzz::mutate::mutated;
use forebay_fuzz::{FuzzTarget, TARGETS, corpus, targets};
use forebay_rng::Rng;

/// Gives hostile bytes to the decoders.
#[derive(Parser)]
#[command(name = "forebay-fuzz", version)]
struct FuzzCli {
    #[command(subcommand)]
    command: FuzzCommand,
}

#[derive(Subcommand)]
enum FuzzCommand {
    /// Changes inputs of the corpus at random, and gives them to one target, or to all in turn.
    Run {
        /// The target (default: all).
        target: Option<String>,
        /// Seconds for each target.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Seed of the random changes.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Gives a file to a target, unchanged.
    Replay {
        /// The target.
        target: String,
        /// The file.
        file: std::path::PathBuf,
    },
    /// Writes the output of the encoders into the corpus, as initial inputs.
    Seeds,
}

fn main() -> Result<()> {
    match FuzzCli::parse().command {
        FuzzCommand::Run {
            target,
            seconds,
            seed,
        } => {
            let wanted: Vec<&FuzzTarget> = match &target {
                Some(name) => vec![find(name)?],
                None => TARGETS.iter().collect(),
            };
            let mut failed = Vec::new();
            for target in wanted {
                if !run(target, Duration::from_secs(seconds), seed)? {
                    failed.push(target.name);
                }
            }
            ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
            Ok(())
        }
        FuzzCommand::Replay { target, file } => {
            let bytes = std::fs::read(&file).with_context(|| file.display().to_string())?;
            (find(&target)?.run)(&bytes);
            println!("{target}: nothing wrong");
            Ok(())
        }
        FuzzCommand::Seeds => {
            for target in &TARGETS {
                for (name, bytes) in (target.seeds)() {
                    corpus::keep(target.name, name, &bytes)?;
                }
            }
            Ok(())
        }
    }
}

fn find(name: &str) -> Result<&'static FuzzTarget> {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    targets::find(name).with_context(|| format!("no target {name}; there are {}", names.join(", ")))
}

/// Returns false if an input makes the target panic. The input is then printed, and stored beside the findings of
/// `cargo fuzz`.
fn run(target: &FuzzTarget, time: Duration, seed: u64) -> Result<bool> {
    let kept = corpus::load(target.name).context("the corpus cannot be read")?;
    let kept: Vec<Vec<u8>> = kept.into_iter().map(|(_, bytes)| bytes).collect();
    let (rng, began, mut inputs) = (Rng::new(seed), Instant::now(), 0u64);
    while began.elapsed() < time {
        let input = mutated(&rng, &kept);
        let run = AssertUnwindSafe(|| (target.run)(&input));
        if std::panic::catch_unwind(run).is_err() {
            let file = corpus::keep_failing(target.name, &format!("{seed}-{inputs}"), &input)?;
            println!(
                "{} fails: replay {} {}",
                target.name,
                target.name,
                file.display()
            );
            return Ok(false);
        }
        inputs += 1;
    }
    println!("{}: {inputs} inputs, nothing found", target.name);
    Ok(true)
}
