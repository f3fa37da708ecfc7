//! Measures the cost of looking: the residency of files, and cheap estimates of many files.
//!
//! `look FILE…` prints for each file the milliseconds that the residency query takes, and the number of runs. `look
//! --find DIR` prints the microseconds per file that an estimate takes in addition to opening the file.

use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use sleds::{Estimator, residency};

fn main() -> std::io::Result<()> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if args.first().is_some_and(|arg| arg.as_os_str() == "--find") {
        return find(&args[1..]);
    }
    for path in &args {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let begun = Instant::now();
        let runs = residency(&file, 0, length)?;
        let took = begun.elapsed().as_secs_f64() * 1e3;
        println!("{took:.3} ms, {} runs, {}", runs.len(), path.display());
    }
    Ok(())
}

fn find(folders: &[PathBuf]) -> std::io::Result<()> {
    let mut files = Vec::new();
    for folder in folders {
        for entry in std::fs::read_dir(folder)? {
            files.push(entry?.path());
        }
    }
    let mut estimator = Estimator::new();
    for round in 0..3 {
        let begun = Instant::now();
        for path in &files {
            std::fs::symlink_metadata(path)?;
        }
        let walk = begun.elapsed();
        let begun = Instant::now();
        for path in &files {
            std::fs::symlink_metadata(path)?;
            let file = File::open(path)?;
            std::hint::black_box(estimator.estimate(&file).ok());
        }
        let both = begun.elapsed();
        let each = (both - walk).as_secs_f64() * 1e6 / files.len().max(1) as f64;
        println!(
            "round {round}: {each:.2} µs a file above stat, {} files",
            files.len()
        );
    }
    Ok(())
}
