//! Search for places that every match contains: a text, or a byte of a small set.
//!
//! Such a place is found many times faster than an automaton proceeds. The automaton then looks only at the line of the
//! place. GNU grep does the same with the longest text that a match must contain.

use memchr::memmem::Finder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Number of places without a match that are tolerated, if fewer than [`WORTH_BYTES`] lie between two of them.
const MISSES_MAX: u64 = 32;
/// Bytes between two places without a match from which on the search for places pays.
const WORTH_BYTES: u64 = 512;
/// Maximum number of ranges in a set of bytes.
const RANGES_MAX: usize = 3;
/// Bytes that are tested at once.
const STEP: usize = 64;

/// A text or a set that every match contains.
enum RequiredPart {
    Text(Box<Finder<'static>>),
    Set(ByteRanges),
}

/// A search for places in lines that may match.
pub(super) struct LinePrefilter {
    part: RequiredPart,
    misses: u64,
    missed_bytes: u64,
}

impl LinePrefilter {
    /// Returns the best prefilter for matches of `hir` in lines that end with `eol`; `None` without a good one.
    pub(super) fn new(hir: &Hir, eol: u8) -> Option<LinePrefilter> {
        let part = match required(hir)? {
            RequiredBytes::Text(text) => {
                RequiredPart::Text(Box::new(Finder::new(&text).into_owned()))
            }
            RequiredBytes::Set(set) => RequiredPart::Set(ByteRanges::new(&set, eol)?),
        };
        Some(LinePrefilter {
            part,
            misses: 0,
            missed_bytes: 0,
        })
    }

    /// Returns the first place at or after `from` in a line that may match.
    pub(super) fn find(&self, lines: &[u8], from: usize) -> Option<usize> {
        match &self.part {
            RequiredPart::Text(text) => text.find(&lines[from..]).map(|at| from + at),
            RequiredPart::Set(set) => set.find(&lines[from..]).map(|at| from + at),
        }
    }

    /// Records that the search proceeded by `bytes` bytes to a place without a match. Returns false if such places are
    /// too frequent.
    pub(super) fn pays_after_miss(&mut self, bytes: usize) -> bool {
        self.misses += 1;
        self.missed_bytes += bytes as u64;
        self.misses < MISSES_MAX || self.missed_bytes / self.misses >= WORTH_BYTES
    }
}

/// Bytes that every match contains.
enum RequiredBytes {
    Text(Vec<u8>),
    /// Inclusive ranges.
    Set(Vec<(u8, u8)>),
}

impl RequiredBytes {
    /// Returns a value that is smaller for better parts: long texts, then small sets.
    fn rank(&self) -> usize {
        match self {
            RequiredBytes::Text(text) => 256 - text.len().min(255),
            RequiredBytes::Set(set) => set.iter().map(|r| usize::from(r.1 - r.0) + 257).sum(),
        }
    }
}

fn required(hir: &Hir) -> Option<RequiredBytes> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Alternation(_) => None,
        HirKind::Literal(text) => Some(RequiredBytes::Text(text.0.to_vec())),
        HirKind::Class(class) => Some(RequiredBytes::Set(first_bytes(class))),
        HirKind::Repetition(repeat) if repeat.min == 0 => None,
        HirKind::Repetition(repeat) => required(&repeat.sub),
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Concat(parts) => {
            let parts = parts.iter().filter_map(required);
            parts.min_by_key(RequiredBytes::rank)
        }
    }
}

/// Returns the first bytes of all characters of a class, and perhaps others.
fn first_bytes(class: &Class) -> Vec<(u8, u8)> {
    match class {
        Class::Bytes(class) => {
            let ranges = class.ranges().iter();
            ranges.map(|range| (range.start(), range.end())).collect()
        }
        Class::Unicode(class) => {
            let first = |c: char| c.encode_utf8(&mut [0; 4]).as_bytes()[0];
            let ranges = class.ranges().iter();
            ranges
                .map(|range| (first(range.start()), first(range.end())))
                .collect()
        }
    }
}

/// A range of bytes.
#[derive(Clone, Copy)]
struct ByteRange {
    first: u8,
    /// Number of bytes after the first.
    more: u8,
}

impl ByteRange {
    #[inline]
    fn contains(self, byte: u8) -> bool {
        byte.wrapping_sub(self.first) <= self.more
    }
}

/// A few ranges of bytes.
struct ByteRanges {
    /// The ranges. Unused ranges repeat the first.
    ranges: [ByteRange; RANGES_MAX],
    count: usize,
}

impl ByteRanges {
    /// Makes a set that contains the inclusive ranges `set`, without `eol`. Ranges of bytes outside ASCII are joined.
    /// Returns `None` if the set has too many ranges, or contains every byte.
    fn new(set: &[(u8, u8)], eol: u8) -> Option<ByteRanges> {
        let mut bytes = [false; 256];
        for (low, high) in set {
            bytes[usize::from(*low)..=usize::from(*high)].fill(true);
        }
        bytes[usize::from(eol)] = false;
        if let Some(first) = bytes[0x80..].iter().position(|byte| *byte) {
            bytes[0x80 + first..].fill(true);
        }
        let mut ranges: Vec<ByteRange> = Vec::new();
        for byte in (0..=u8::MAX).filter(|byte| bytes[usize::from(*byte)]) {
            match ranges.last_mut() {
                Some(last) if last.first + last.more + 1 == byte => last.more += 1,
                _ => ranges.push(ByteRange {
                    first: byte,
                    more: 0,
                }),
            }
        }
        let first = *ranges.first()?;
        let wide = bytes[..0x80].iter().filter(|byte| **byte).count() > 64;
        if ranges.len() > RANGES_MAX || wide {
            return None;
        }
        let mut all = [first; RANGES_MAX];
        all[..ranges.len()].copy_from_slice(&ranges);
        Some(ByteRanges {
            ranges: all,
            count: ranges.len(),
        })
    }

    fn find(&self, bytes: &[u8]) -> Option<usize> {
        let [first, second, third] = self.ranges;
        match self.count {
            1 => find(bytes, |byte| first.contains(byte)),
            2 => find(bytes, |byte| first.contains(byte) | second.contains(byte)),
            _ => find(bytes, |byte| {
                first.contains(byte) | second.contains(byte) | third.contains(byte)
            }),
        }
    }
}

/// Returns the place of the first byte with `test`. The compiler makes vector instructions of the test of a step.
#[inline]
fn find(bytes: &[u8], test: impl Fn(u8) -> bool) -> Option<usize> {
    let mut at = 0;
    for step in bytes.chunks(STEP) {
        if step.iter().fold(false, |any, byte| any | test(*byte)) {
            return step.iter().position(|byte| test(*byte)).map(|n| at + n);
        }
        at += step.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_finds_the_first_of_its_bytes_and_no_other() {
        for set in [
            &[(b'0', b'9')][..],
            &[(b'A', b'Z'), (0xc3, 0xd5)],
            &[(0, 0), (b'a', b'b'), (0xff, 0xff)],
        ] {
            let ranges = ByteRanges::new(set, b'\n').expect("a small set");
            for length in [0, 1, 63, 64, 65, 200] {
                let mut text = vec![b'x'; length];
                assert_eq!(ranges.find(&text), None);
                for at in 0..length {
                    text[at] = set[set.len() - 1].1;
                    assert_eq!(ranges.find(&text), Some(at), "{set:?}");
                    text[at] = b'x';
                }
            }
        }
    }

    #[test]
    fn a_set_excludes_the_line_end_and_is_refused_if_it_is_large() {
        let ranges = ByteRanges::new(&[(9, 11)], b'\n').expect("a small set");
        assert_eq!(ranges.find(b"\n\n\x0b"), Some(2));
        assert!(ByteRanges::new(&[(0, 255)], b'\n').is_none());
        assert!(ByteRanges::new(&[(b'\n', b'\n')], b'\n').is_none());
        let scattered: Vec<_> = (b'a'..b'i').step_by(2).map(|byte| (byte, byte)).collect();
        assert!(ByteRanges::new(&scattered, b'\n').is_none());
    }

    #[test]
    fn frequent_places_without_a_match_end_the_use() {
        let literal = Hir::literal(*b"text");
        let mut frequent = LinePrefilter::new(&literal, b'\n').expect("a text");
        assert!((1..MISSES_MAX).all(|_| frequent.pays_after_miss(100)));
        assert!(!frequent.pays_after_miss(100));
        let mut rare = LinePrefilter::new(&literal, b'\n').expect("a text");
        assert!((0..1000).all(|_| rare.pays_after_miss(100_000)));
    }
}
