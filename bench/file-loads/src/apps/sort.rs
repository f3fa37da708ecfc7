//! Quicksort of a large memory-mapped file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_rng::Rng;

use super::{AppAmount, must};
use crate::mapped::MappedFile;

/// Shorter ranges are sorted by insertion.
const SHORT: usize = 16;

fn path(dir: &Path) -> PathBuf {
    dir.join("numbers")
}

fn count(amount: AppAmount) -> u64 {
    amount.of(10_000, 4 << 20, 32 << 20)
}

pub(super) fn prepare(dir: &Path, amount: AppAmount) -> io::Result<()> {
    let numbers = Rng::new(1);
    let mut out = BufWriter::with_capacity(1 << 20, File::create_new(path(dir))?);
    for _ in 0..count(amount) {
        out.write_all(&numbers.next().to_ne_bytes())?;
    }
    out.into_inner()?.sync_all()
}

pub(super) fn run(dir: &Path, amount: AppAmount) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path(dir))?;
    let mut mapped = MappedFile::whole(&file)?;
    let numbers = mapped.numbers::<u64>();
    let sum = |numbers: &[u64]| numbers.iter().fold(0_u64, |sum, n| sum.wrapping_add(*n));
    let before = sum(numbers);
    sort(numbers);
    let right = numbers.is_sorted() && sum(numbers) == before;
    must(
        right && numbers.len() as u64 == count(amount),
        "what was sorted",
    )?;
    mapped.sync()
}

/// Sorts with Hoare's partition and the median of three.
fn sort(mut numbers: &mut [u64]) {
    while numbers.len() > SHORT {
        let (last, middle) = (numbers.len() - 1, numbers.len() / 2);
        let mut three = [numbers[0], numbers[middle], numbers[last]];
        three.sort_unstable();
        let (mut i, mut j) = (0, last);
        while i <= j {
            while numbers[i] < three[1] {
                i += 1;
            }
            while numbers[j] > three[1] {
                j -= 1;
            }
            if i <= j {
                numbers.swap(i, j);
                i += 1;
                // The median is among the numbers, so some number lies below `i` when this is 0.
                let Some(next) = j.checked_sub(1) else { break };
                j = next;
            }
        }
        let (low, high) = numbers.split_at_mut(i);
        // Numbers between both ranges are equal to the pivot, and are in their final places.
        let (shorter, longer) = if low.len() < high.len() {
            (low, high)
        } else {
            (high, low)
        };
        sort(shorter);
        numbers = longer;
    }
    for i in 1..numbers.len() {
        let mut j = i;
        while j > 0 && numbers[j - 1] > numbers[j] {
            numbers.swap(j - 1, j);
            j -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_numbers_are_sorted() {
        let rng = Rng::new(3);
        for len in [0, 1, 2, 16, 17, 40, 1000] {
            for most in [1, 2, 10, u64::MAX] {
                let mut numbers: Vec<u64> = (0..len).map(|_| rng.below(most)).collect();
                let mut wanted = numbers.clone();
                wanted.sort_unstable();
                sort(&mut numbers);
                assert_eq!(numbers, wanted);
                sort(&mut numbers);
                assert_eq!(numbers, wanted);
            }
        }
    }
}
