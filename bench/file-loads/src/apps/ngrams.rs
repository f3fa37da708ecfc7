//! N-grams collected from the web, with their frequencies: a hash table in a file, with one bucket in each block.
//! Several threads query the table.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use forebay_rng::{Rng, mix};
use rustix::fs::OFlags;

use super::{AppAmount, must};
use crate::buffer::AlignedBytes;

const BLOCK: usize = 4096;
/// Size of an entry: the number of an n-gram and its frequency.
const ENTRY: usize = 16;
const IN_BLOCK: u64 = (BLOCK / ENTRY) as u64;
const THREADS: u64 = 8;

fn path(dir: &Path) -> PathBuf {
    dir.join("ngrams")
}

/// Returns the number of buckets of the table, and the number of queries of each thread.
fn size(amount: AppAmount) -> (u64, u64) {
    amount.of((64, 100), (64 << 10, 10_000), (256 << 10, 60_000))
}

/// Returns the key of the n-gram with this rank.
fn of_rank(rank: u64) -> u64 {
    mix(rank, 2) | 1
}

/// Returns the bucket of the n-gram with this rank, and the index in the bucket. Each group of as many ranks as buckets
/// has one rank in each bucket, in a well mixed order.
fn place(rank: u64, buckets: u64) -> (u64, u64) {
    // The factor is odd, so with a power of two as the number of buckets each bucket occurs once.
    let bucket = rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % buckets;
    (bucket, rank / buckets)
}

/// Returns the rank at an index of a bucket.
fn rank_at(bucket: u64, at: u64, buckets: u64) -> u64 {
    // The inverse of the factor above, modulo two to the power of 64, and therefore modulo each smaller power.
    let factor = 0x9e37_79b9_7f4a_7c15_u64;
    let inverse = (0..6).fold(factor, |x, _| {
        x.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(x)))
    });
    at * buckets + bucket.wrapping_mul(inverse) % buckets
}

fn met(rank: u64) -> u64 {
    1_000_000_000 / (rank + 1)
}

pub(super) fn prepare(dir: &Path, amount: AppAmount) -> io::Result<()> {
    let (buckets, _) = size(amount);
    let mut out = BufWriter::with_capacity(1 << 20, File::create_new(path(dir))?);
    for bucket in 0..buckets {
        for at in 0..IN_BLOCK {
            let rank = rank_at(bucket, at, buckets);
            out.write_all(&of_rank(rank).to_ne_bytes())?;
            out.write_all(&met(rank).to_ne_bytes())?;
        }
    }
    out.into_inner()?.sync_all()
}

pub(super) fn run(dir: &Path, amount: AppAmount) -> io::Result<()> {
    let path = path(dir);
    std::thread::scope(|scope| {
        let ask = |thread: u64| {
            let path = &path;
            let (buckets, questions) = size(amount);
            scope.spawn(move || ask(path, buckets, questions, thread))
        };
        let all: Vec<_> = (0..THREADS).map(ask).collect();
        let mut ended = all.into_iter().map(|one| {
            let joined = one.join();
            joined.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        });
        ended.try_for_each(|done| done)
    })
}

fn ask(path: &Path, buckets: u64, questions: u64, thread: u64) -> io::Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(path)?;
    let (numbers, mut buffer) = (Rng::new(thread), AlignedBytes::zeroed(BLOCK));
    for _ in 0..questions {
        let rank = zipf(&numbers, buckets * IN_BLOCK);
        let (bucket, _) = place(rank, buckets);
        file.read_exact_at(buffer.bytes_mut(), bucket * BLOCK as u64)?;
        let wanted = of_rank(rank).to_ne_bytes();
        let mut entries = buffer.bytes().chunks(ENTRY);
        let found = entries.find(|entry| entry[..8] == wanted);
        let right = found.is_some_and(|entry| entry[8..] == met(rank).to_ne_bytes());
        must(right, "what an n-gram was found as")?;
    }
    Ok(())
}

/// Draws a rank approximately by Zipf's law with exponent 1: the logarithm of the rank is uniformly distributed.
fn zipf(numbers: &Rng, ranks: u64) -> u64 {
    let even = (numbers.next() >> 11) as f64 / (1_u64 << 53) as f64;
    let rank = ((ranks as f64).ln() * even).exp() as u64;
    rank.saturating_sub(1).min(ranks - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_exactly_one_position() {
        for rank in 0..10_000 {
            let (bucket, at) = place(rank, 64);
            assert_eq!(rank_at(bucket, at, 64), rank);
        }
    }

    #[test]
    fn a_few_ranks_get_most_lookups() {
        let numbers = Rng::new(1);
        let low = (0..10_000).filter(|_| zipf(&numbers, 1_000_000) < 1000);
        let low = low.count();
        assert!((4500..5500).contains(&low), "{low}");
    }
}
