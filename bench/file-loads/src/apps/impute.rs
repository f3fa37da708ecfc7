//! Missing values of a microarray, estimated from the rows that are most similar to the row with the missing value.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_rng::Rng;

use super::{AppAmount, must};
use crate::mapped::MappedFile;

/// Samples of each gene.
const COLUMNS: usize = 256;
/// Rows from which a value is estimated.
const NEAREST: usize = 10;
/// Kinds of genes. Rows of one kind are similar.
const KINDS: u64 = 50;
/// Largest mean difference between a value and its estimate.
const NEAR: f64 = 0.05;

fn path(dir: &Path) -> PathBuf {
    dir.join("matrix")
}

/// Returns the number of rows, and the number of rows with one missing value.
fn size(amount: AppAmount) -> (usize, usize) {
    amount.of((1_000, 20), (40_000, 50), (200_000, 60))
}

/// Returns the value of a gene of a kind in a sample, without noise.
fn pattern(kind: u64, column: usize) -> f32 {
    ((kind as f32 + 1.0) * 0.37 * (column as f32 + 1.0)).sin()
}

pub(super) fn prepare(dir: &Path, amount: AppAmount) -> io::Result<()> {
    let (rows, missing) = size(amount);
    let numbers = Rng::new(2);
    let mut out = BufWriter::with_capacity(1 << 20, File::create_new(path(dir))?);
    for row in 0..rows {
        for column in 0..COLUMNS {
            let noise = numbers.below(1000) as f32 / 10_000.0 - 0.05;
            let value = pattern(row as u64 % KINDS, column) + noise;
            let is_missing = gap(row, rows, missing) == Some(column);
            let value = if is_missing { f32::NAN } else { value };
            out.write_all(&value.to_ne_bytes())?;
        }
    }
    out.into_inner()?.sync_all()
}

/// Returns the column of the missing value of a row, if the row misses a value.
fn gap(row: usize, rows: usize, missing: usize) -> Option<usize> {
    let every = rows / missing;
    (row % every == every / 2).then_some(row % COLUMNS)
}

pub(super) fn run(dir: &Path, amount: AppAmount) -> io::Result<()> {
    let (rows, missing) = size(amount);
    let file = OpenOptions::new().read(true).write(true).open(path(dir))?;
    let mut mapped = MappedFile::whole(&file)?;
    let values = mapped.numbers::<f32>();
    must(values.len() == rows * COLUMNS, "the matrix")?;
    let (mut filled, mut off) = (0, 0.0);
    for row in 0..rows {
        let Some(column) = gap(row, rows, missing) else {
            continue;
        };
        let value = estimate(values, row, column);
        off += f64::from((value - pattern(row as u64 % KINDS, column)).abs());
        values[row * COLUMNS + column] = value;
        filled += 1;
    }
    must(
        filled >= missing && off / f64::from(filled as u32) < NEAR,
        "what was estimated",
    )?;
    mapped.sync()
}

/// Returns the mean of a column in the rows that are nearest to a row.
fn estimate(values: &[f32], row: usize, column: usize) -> f32 {
    let this = &values[row * COLUMNS..][..COLUMNS];
    // Nearest rows so far, in order of distance.
    let mut nearest: Vec<(f32, f32)> = Vec::with_capacity(NEAREST + 1);
    for (n, other) in values.chunks_exact(COLUMNS).enumerate() {
        if n == row || other[column].is_nan() {
            continue;
        }
        let far = distance(this, other);
        let is_near = nearest.len() < NEAREST || nearest.last().is_some_and(|last| far < last.0);
        if is_near {
            let at = nearest.partition_point(|(one, _)| *one <= far);
            nearest.insert(at, (far, other[column]));
            nearest.truncate(NEAREST);
        }
    }
    let sum: f32 = nearest.iter().map(|(_, value)| value).sum();
    sum / nearest.len().max(1) as f32
}

/// Returns the square of the distance, over the columns that both rows have.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    let squares = a.iter().zip(b).map(|(a, b)| {
        let square = (a - b) * (a - b);
        if square.is_nan() { 0.0 } else { square }
    });
    squares.sum()
}
