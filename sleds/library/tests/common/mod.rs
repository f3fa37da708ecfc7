//! Test files with a controlled state in the page cache.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use sleds::{FilePiece, FileReader, Presence, ReadOptions, ReadUnit, residency};

pub const PAGE: u64 = 4096;

/// Reports a skipped test on the real standard error.
pub fn skipped(name: &str, why: &str) {
    let line = format!("SKIPPED: {name}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Makes a directory on a disk filesystem, since `/tmp` may be in memory.
pub fn scratch() -> tempfile::TempDir {
    let place = env!("CARGO_TARGET_TMPDIR");
    tempfile::Builder::new()
        .prefix("sleds-")
        .tempdir_in(place)
        .expect("a scratch directory")
}

/// A small random number generator: equal seeds give equal numbers.
pub struct TestRandom(pub u64);

impl TestRandom {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Returns lines of text, some empty, some long, of `length` bytes in total.
pub fn text(random: &mut TestRandom, length: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(length);
    while text.len() < length {
        let line = match random.below(20) {
            0 => 0,
            1 => random.below(20_000),
            _ => random.below(80),
        };
        text.extend((0..line).map(|n| b'a' + (n % 26) as u8));
        text.push(b'\n');
    }
    text.truncate(length);
    text
}

/// Makes a file with this content, on disk and not cached.
pub fn cold(path: &Path, content: &[u8]) -> File {
    fs::write(path, content).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    evict(&file);
    file
}

/// Evicts a file from the page cache.
pub fn evict(file: &File) {
    file.sync_all().unwrap();
    fadvise(file, 0, None, Advice::DontNeed).unwrap();
}

/// Reads pages into the page cache, without adjacent pages.
pub fn warm(file: &File, pages: Range<u64>) {
    use std::os::unix::fs::FileExt as _;
    let mut page = [0; PAGE as usize];
    fadvise(file, 0, None, Advice::Random).unwrap();
    for one in pages {
        let _ = file.read_at(&mut page, one * PAGE).unwrap();
    }
    fadvise(file, 0, None, Advice::Normal).unwrap();
}

/// Caches random runs of pages, about half of the file.
pub fn mix(file: &File, random: &mut TestRandom, run_pages_max: u64) {
    evict(file);
    let pages = file.metadata().unwrap().len().div_ceil(PAGE);
    let (mut at, mut cached) = (0, random.below(2) == 0);
    while at < pages {
        let end = (at + 1 + random.below(run_pages_max)).min(pages);
        if cached {
            warm(file, at..end);
        }
        (at, cached) = (end, !cached);
    }
}

/// Returns true if a test can control the page cache of files in this directory.
pub fn can_evict(path: &Path) -> bool {
    let file = cold(&path.join("probe"), &[1; 8 * PAGE as usize]);
    let runs = residency(&file, 0, 8 * PAGE).unwrap();
    runs.len() == 1 && runs[0].presence == Presence::Absent
}

/// Returns all pieces of a file, in the order in which they arrive.
pub fn pieces(file: &File, options: ReadOptions) -> Vec<(u64, Vec<u8>)> {
    let mut reader = FileReader::new(file, options).unwrap();
    let mut all = Vec::new();
    while let Some(FilePiece { offset, data, .. }) = reader.next_piece().unwrap() {
        assert!(!data.is_empty());
        all.push((offset, data.to_vec()));
    }
    all
}

/// Joins the pieces in file order. Panics unless each byte from `from` on is present exactly once.
pub fn joined(pieces: &[(u64, Vec<u8>)], from: u64) -> Vec<u8> {
    let mut sorted: Vec<_> = pieces.iter().collect();
    sorted.sort();
    let mut all = Vec::new();
    for (offset, data) in sorted {
        assert_eq!(*offset, from + all.len() as u64, "a gap or an overlap");
        all.extend_from_slice(data);
    }
    all
}

/// Panics if a piece cuts a unit.
pub fn assert_whole(pieces: &[(u64, Vec<u8>)], unit: ReadUnit, content: &[u8]) {
    for (offset, data) in pieces {
        let end = *offset as usize + data.len();
        match unit {
            ReadUnit::Bytes => {}
            ReadUnit::Records(sep) => {
                assert!(*offset == 0 || content[*offset as usize - 1] == sep);
                assert!(end == content.len() || content[end - 1] == sep);
            }
            ReadUnit::RecordsOrZeros(sep) => {
                let ends = |byte: u8| byte == sep || byte == 0;
                assert!(*offset == 0 || ends(content[*offset as usize - 1]));
                assert!(end == content.len() || ends(content[end - 1]));
            }
            ReadUnit::Elements { start, size } => {
                let size = u64::from(size);
                assert_eq!((offset - start) % size, 0);
                assert!(end == content.len() || (end as u64 - start).is_multiple_of(size));
            }
        }
    }
}

/// Returns a path in the test's directory.
pub fn path(dir: &tempfile::TempDir, name: &str) -> PathBuf {
    dir.path().join(name)
}
