//! Decodes answers of Forebay from raw bytes, for tests and fuzzers that feed hostile answers to the decoders. Not part
//! of the public interface.

use std::ops::Range;

use super::volume::TierExtent;
use super::{ioctls, refine, volume};
use crate::extents::{BackingExtent, BackingTier};

/// Length of a mounted filesystem's answer about the places of bytes.
pub const PLACES_BYTES: usize = ioctls::ARGUMENT;
/// Length of a mounted filesystem's answer about its data device.
pub const MEDIUM_BYTES: usize = ioctls::MEDIUM_BYTES;

/// Returns the parts that one answer of a mounted filesystem reports for the bytes `asked` of a file. The parts are in
/// order and without gaps from the first byte on.
pub fn of_filesystem(answer: &[u8; PLACES_BYTES], asked: Range<u64>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let end = ioctls::believe(answer, (asked.start, asked.end), &mut found);
    assert_eq!(found.last().map_or(asked.start, |last| last.end), end);
    ranges(&found)
}

/// Decodes the data device of a mounted filesystem, and returns the length of its path.
pub fn of_medium(answer: &[u8; MEDIUM_BYTES]) -> usize {
    ioctls::decode_medium(answer).path.as_os_str().len()
}

/// Returns the parts of a file of `length` bytes that lies contiguously from byte `at` of a volume on. The volume gives
/// `answer` to every question. The parts are in order and without gaps.
pub fn of_volume(answer: &[u8], at: u64, length: u64) -> Vec<Range<u64>> {
    let whole = BackingExtent {
        offset: 0,
        end: length,
        under: BackingTier::Data(Some(at)),
    };
    ranges(&refine::refine(&[whole], Some(0), ConstantAnswer(answer)))
}

/// Gives the same answer to every question.
struct ConstantAnswer<'a>(&'a [u8]);

impl refine::TierReporter for ConstantAnswer<'_> {
    fn tell(&mut self, _start: u64, _end: u64) -> Option<(Vec<TierExtent>, u64)> {
        volume::parts(self.0)
    }
}

fn ranges(extents: &[BackingExtent]) -> Vec<Range<u64>> {
    let ranges = extents.iter().map(|extent| extent.offset..extent.end);
    ranges.collect()
}
