//! Answers of Forebay's as bytes, taken as they are where somebody asks about a file: for who gives hostile ones to decoders.
//! No part of what is promised to users.

use std::ops::Range;

use super::volume::Part;
use super::{ioctls, refine, volume};
use crate::extents::{Extent, Under};

/// How long the answer of a mounted filesystem to where bytes lie is.
pub const PLACES_BYTES: usize = ioctls::ARGUMENT;
/// How long that to what it is on is.
pub const MEDIUM_BYTES: usize = ioctls::MEDIUM_BYTES;

/// What a mounted filesystem tells of these bytes of a file, with one answer: parts, in order and without gaps from the
/// first byte on.
pub fn of_filesystem(answer: &[u8; PLACES_BYTES], asked: Range<u64>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let end = ioctls::believe(answer, (asked.start, asked.end), &mut found);
    assert_eq!(found.last().map_or(asked.start, |last| last.end), end);
    ranges(&found)
}

/// What a mounted filesystem is on: the length of its path.
pub fn of_medium(answer: &[u8; MEDIUM_BYTES]) -> usize {
    ioctls::decode_medium(answer).path.as_os_str().len()
}

/// What a volume tells of a file of `length` bytes in one piece from byte `at` of it on, if it always answers the same: parts,
/// in order and without gaps.
pub fn of_volume(answer: &[u8], at: u64, length: u64) -> Vec<Range<u64>> {
    let whole = Extent {
        offset: 0,
        end: length,
        under: Under::Data(Some(at)),
    };
    ranges(&refine::refine(&[whole], Some(0), Always(answer)))
}

/// Answers the same to all.
struct Always<'a>(&'a [u8]);

impl refine::Tell for Always<'_> {
    fn tell(&mut self, _start: u64, _end: u64) -> Option<(Vec<Part>, u64)> {
        volume::parts(self.0)
    }
}

fn ranges(extents: &[Extent]) -> Vec<Range<u64>> {
    let ranges = extents.iter().map(|extent| extent.offset..extent.end);
    ranges.collect()
}
