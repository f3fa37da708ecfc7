//! Tests of observations from reading in file order. A single test, since observations belong to the process.

mod common;

use std::fs::File;
use std::ops::Range;

use common::{PAGE, can_evict, cold, evict, path, scratch, skipped, warm};
use sleds::{EstimateRange, FileReader, RateSource, ReadOptions, ReadPlan, describe};

/// Minimum length of an observed pass.
const BYTES: u64 = 32 << 20;
/// Number of passes: one more than the number that is enough.
const PASSES: usize = 4;

fn read(file: &File, to: u64) {
    let mut again = file;
    std::io::Seek::rewind(&mut again).unwrap();
    let options = ReadOptions {
        plan: ReadPlan::Linear,
        ..ReadOptions::default()
    };
    let mut reader = FileReader::before(file, to, options).unwrap();
    while reader.next_piece().unwrap().is_some() {}
}

/// Reads up to byte `to` several times. Before each pass only these pages are cached.
fn passes(file: &File, to: u64, cached: Range<u64>) {
    for _ in 0..PASSES {
        evict(file);
        warm(file, cached.clone());
        read(file, to);
    }
}

/// Returns the bandwidth in file order and its origin from the SLED of an uncached file.
fn known(file: &File) -> (Option<EstimateRange>, RateSource) {
    evict(file);
    let sleds = describe(file).unwrap();
    (sleds[0].linear_Bps, sleds[0].source)
}

#[test]
fn a_long_sequential_pass_over_uncached_data_updates_the_bandwidth() {
    let name = "a_long_sequential_pass_over_uncached_data_updates_the_bandwidth";
    let dir = scratch();
    if !can_evict(dir.path()) {
        return skipped(name, "pages cannot be evicted here");
    }
    let content: Vec<u8> = (0..BYTES + PAGE).map(|n| (n / 7 % 251) as u8).collect();
    let file = cold(&path(&dir, "file"), &content);
    let before = known(&file);
    if before.1 == RateSource::Unknown {
        return skipped(name, "nothing is known of this disk");
    }
    passes(&file, BYTES, 1000..1001);
    assert_eq!(known(&file), before, "a page was cached");
    passes(&file, BYTES - 1, 0..0);
    assert_eq!(known(&file), before, "it was too short");
    let holey = File::create_new(path(&dir, "holey")).unwrap();
    holey.set_len(2 * BYTES).unwrap();
    let holey = File::open(path(&dir, "holey")).unwrap();
    passes(&holey, 2 * BYTES, 0..0);
    assert_eq!(known(&file), before, "it was a hole");

    passes(&file, BYTES, 0..0);
    let (seen, source) = known(&file);
    assert_eq!(source, RateSource::Observed);
    assert_ne!(seen, before.0);
}
