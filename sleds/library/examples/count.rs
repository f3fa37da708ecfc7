//! Counts lines and words like `wc` in the C locale, reading in a given order. Shows the gain of a program.
//!
//! `count linear|best|auto FILE…` prints lines, words, bytes, the plan used and the seconds taken.

use std::fs::File;
use std::time::Instant;

use sleds::{FileReader, ReadOptions, ReadPlan, ReadUnit};

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let plan = match args.next().as_deref() {
        Some("linear") => ReadPlan::Linear,
        Some("best") => ReadPlan::Best,
        Some("auto") => ReadPlan::Auto,
        _ => {
            eprintln!("usage: count linear|best|auto FILE…");
            std::process::exit(2);
        }
    };
    for path in args {
        let begun = Instant::now();
        let file = File::open(&path)?;
        // Whole lines, so that no word is split between two pieces.
        let unit = ReadUnit::Records(b'\n');
        let options = ReadOptions {
            plan,
            unit,
            ..ReadOptions::default()
        };
        let mut reader = FileReader::new(&file, options)?;
        let used = reader.plan();
        let (mut lines, mut words, mut bytes) = (0_u64, 0_u64, 0_u64);
        while let Some(piece) = reader.next_piece()? {
            bytes += piece.data.len() as u64;
            let mut between = true;
            for &byte in piece.data {
                let space = byte.is_ascii_whitespace();
                lines += u64::from(byte == b'\n');
                words += u64::from(between && !space);
                between = space;
            }
        }
        let took = begun.elapsed().as_secs_f64();
        println!("{lines} {words} {bytes} {path} {used:?} {took:.3}");
    }
    Ok(())
}
