//! Traces measured on a real drive.
//!
//! A request a line: `R` or `W`; a word of no meaning; first block; blocks; service time in
//! microseconds, from issue to completion; a gap in microseconds.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use forebay_model::disk::{Op, Spec};

/// A request and how long the drive took.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Measured {
    pub(crate) op: Op,
    pub(crate) first: u64,
    pub(crate) blocks: u32,
    pub(crate) service_us: f64,
    pub(crate) gap_us: f64,
}

pub(crate) fn load(path: &Path) -> Result<Vec<Measured>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is not a measured trace", path.display()))
}

pub(crate) fn parse(text: &str) -> Result<Vec<Measured>> {
    let mut trace = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        trace.push(request(line).with_context(|| format!("line {}", index + 1))?);
    }
    ensure!(!trace.is_empty(), "it has no requests");
    Ok(trace)
}

fn request(line: &str) -> Result<Measured> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [op, _, first, blocks, service, gap] = words[..] else {
        bail!("{} words where there should be 6", words.len());
    };
    let op = match op {
        "R" => Op::Read,
        "W" => Op::Write,
        other => bail!("{other:?} is neither R nor W"),
    };
    let blocks: u32 = blocks
        .parse()
        .map_err(|_| anyhow!("{blocks:?} is not a number of blocks"))?;
    ensure!(blocks > 0, "a request for no blocks");
    Ok(Measured {
        op,
        first: first
            .parse()
            .map_err(|_| anyhow!("{first:?} is not a block's number"))?,
        blocks,
        service_us: microseconds(service)?,
        gap_us: microseconds(gap)?,
    })
}

fn microseconds(word: &str) -> Result<f64> {
    let us: f64 = word
        .parse()
        .map_err(|_| anyhow!("{word:?} is not a time"))?;
    ensure!(
        us.is_finite() && (0.0..1e12).contains(&us),
        "{word:?} is not a time"
    );
    Ok(us)
}

/// Whether every request is on the disk.
pub(crate) fn check(trace: &[Measured], spec: &Spec) -> Result<()> {
    for (index, r) in trace.iter().enumerate() {
        let end = r.first.saturating_add(u64::from(r.blocks));
        ensure!(
            end <= spec.blocks(),
            "request {} is for blocks {} to {}, but the drive has {}",
            index + 1,
            r.first,
            end - 1,
            spec.blocks()
        );
    }
    Ok(())
}

/// The requests with their times on the drive and in the model, a line each, for study.
pub(crate) fn beside(trace: &[Measured], real_ms: &[f64], model_ms: &[f64]) -> String {
    let mut text = String::from("op first blocks real_ms model_ms\n");
    for ((r, real), model) in trace.iter().zip(real_ms).zip(model_ms) {
        let op = match r.op {
            Op::Read => 'R',
            Op::Write => 'W',
        };
        text += &format!("{op} {} {} {real:.3} {model:.3}\n", r.first, r.blocks);
    }
    text
}
