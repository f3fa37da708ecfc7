//! Tests of one HDU of several, read out of order: parts of it and of its neighbours are cached.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use sleds::{FileReader, ReadOptions, ReadPlan, ReadUnit};

use crate::support::{cache_only, scratch, seed, settle, skip};
use forebay_rng::Rng;

const BLOCK: usize = 2880;
/// Pixels of a row. For no `BITPIX` does the row length divide the page size.
const WIDTH: usize = 777;

/// Range of the tested HDU's data in the file.
struct HduRange {
    at: u64,
    length: u64,
}

/// Returns the header of an image; `first` is true for the primary header.
fn header(bitpix: i32, height: usize, first: bool) -> Vec<u8> {
    let kind = if first {
        ("SIMPLE", "T".to_owned())
    } else {
        ("XTENSION", "'IMAGE   '".to_owned())
    };
    let mut keys = vec![
        kind,
        ("BITPIX", bitpix.to_string()),
        ("NAXIS", "2".to_owned()),
        ("NAXIS1", WIDTH.to_string()),
        ("NAXIS2", height.to_string()),
    ];
    if first {
        keys.push(("EXTEND", "T".to_owned()));
    } else {
        keys.extend([("PCOUNT", "0".to_owned()), ("GCOUNT", "1".to_owned())]);
    }
    let cards = keys
        .iter()
        .map(|(key, value)| format!("{:<80}", format!("{key:<8}= {value:>20}")));
    let text = cards.collect::<String>() + &format!("{:<80}", "END");
    format!("{text:<width$}", width = text.len().next_multiple_of(BLOCK)).into_bytes()
}

/// Returns pixels that are whole numbers below 100, in the format of `BITPIX`.
fn pixels(bitpix: i32, count: usize, rng: &Rng) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count * 8);
    for _ in 0..count {
        let value = rng.below(100);
        match bitpix {
            8 => bytes.push(value as u8),
            16 => bytes.extend((value as i16).to_be_bytes()),
            32 => bytes.extend((value as i32).to_be_bytes()),
            64 => bytes.extend((value as i64).to_be_bytes()),
            -32 => bytes.extend((value as f32).to_be_bytes()),
            _ => bytes.extend((value as f64).to_be_bytes()),
        }
    }
    bytes
}

/// Writes an image between two others.
fn write(path: &Path, bitpix: i32, rng: &Rng) -> HduRange {
    let width = bitpix.unsigned_abs() as usize / 8;
    let heights = [400, (4 << 20) / WIDTH / width, 500];
    let mut all = Vec::new();
    let mut data = HduRange { at: 0, length: 0 };
    for (n, height) in heights.into_iter().enumerate() {
        let bitpix = [16, bitpix, -32][n];
        all.extend(header(bitpix, height, n == 0));
        let pixels = pixels(bitpix, WIDTH * height, rng);
        if n == 1 {
            data = HduRange {
                at: all.len() as u64,
                length: pixels.len() as u64,
            };
        }
        all.extend(pixels);
        all.resize(all.len().next_multiple_of(BLOCK), 0);
    }
    fs::write(path, all).expect("a file");
    data
}

/// Returns ranges of pages: two inside the image, one across its front edge and one across its end.
fn ranges(data: &HduRange, rng: &Rng) -> Vec<(u64, u64)> {
    let page = |at: u64| at & !4095;
    let inside = || {
        let at = data.at + (512 << 10) + rng.below(data.length - (1 << 20));
        (page(at), 4096 * (1 + rng.below(100)))
    };
    vec![
        inside(),
        inside(),
        (page(data.at - 40_000), 80_000),
        (page(data.at + data.length - 40_000), 80_000),
    ]
}

/// Returns the number of times that a reader of the image jumps to another place.
fn turns(path: &Path, data: &HduRange, size: u32) -> usize {
    let file = File::open(path).expect("the file");
    let options = ReadOptions {
        plan: ReadPlan::Best,
        unit: ReadUnit::Elements {
            start: data.at,
            size,
        },
        ..ReadOptions::default()
    };
    let mut reader = FileReader::before(&file, data.at + data.length, options).expect("a reader");
    let (mut next, mut turns) = (data.at, 0);
    while let Some(piece) = reader.next_piece().expect("a piece") {
        turns += usize::from(piece.offset != next);
        next = piece.offset + piece.data.len() as u64;
    }
    turns
}

fn sleds(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sleds"));
    let command = command.arg("fits").args(words).current_dir(dir);
    command.output().expect("sleds to run")
}

#[test]
fn one_image_of_several_gives_an_identical_result_in_best_order() {
    let first = seed();
    let mut out_of_order = 0;
    for (round, bitpix) in [8, 16, 32, 64, -32, -64].into_iter().enumerate() {
        let seed = first.wrapping_add(round as u64);
        let rng = &Rng::new(seed);
        let dir = scratch();
        let path = dir.path().join("in.fits");
        let data = write(&path, bitpix, rng);
        settle(dir.path());
        let ranges = ranges(&data, rng);
        cache_only(&path, &ranges);
        out_of_order += turns(&path, &data, bitpix.unsigned_abs() / 8);
        for words in [
            &["hist", "in.fits[1]", "out", "10:60", "3"][..],
            &["hist", "in.fits[1]", "out", "-", "1"],
            &["bin", "in.fits[1]", "out", "3", "5", "--average"],
            &["bin", "in.fits[1]", "out", "2", "--bitpix=32"],
        ] {
            let results = ["linear", "best"].map(|plan| {
                cache_only(&path, &ranges);
                let mut words = words.to_vec();
                words.extend(["--clobber", "--plan", plan]);
                let done = sleds(dir.path(), &words);
                assert!(done.status.success(), "seed {seed}: {words:?}: {done:?}");
                fs::read(dir.path().join("out")).expect("the output")
            });
            let [linear, best] = results;
            assert!(linear.len() > BLOCK);
            // Not `assert_eq`, which would print megabytes.
            assert!(linear == best, "seed {seed}: BITPIX {bitpix}, {words:?}");
        }
    }
    if out_of_order == 0 {
        skip(
            "one_image_of_several_gives_an_identical_result_in_best_order",
            "nothing leaves the page cache here, so all came in order",
        );
    }
}
