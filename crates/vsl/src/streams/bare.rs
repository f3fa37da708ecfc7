//! Segments without a summary.

use forebay_segments::{HEADER_BYTES, Layout as _};

use super::{Open, Streams};
use crate::format::{Stream, Volume};
use crate::geometry::Layout;

/// The most records of a segment of clients' data without a summary.
///
/// Large writes fill a segment with one record, or two where a flush came between. Recovery reads a header for each record
/// of such segments instead of one summary, and there are many behind a checkpoint. A segment of small flushed writes has many
/// records, and its summary is a hundredth of it.
const USER_BARE_RECORDS: usize = 2;
/// The same for each MiB of a segment of moved data, or of what checkpoints write. A record with a full header of pieces of one
/// sector has 88 KiB, so a segment of them has 12 for each MiB, and some more end early. With a summary, all entries of such
/// a segment stand there twice, which takes a twentieth of it.
const MOVED_BARE_RECORDS: usize = 16;

/// The most records of a segment of a stream without a summary.
pub(super) fn bare_records(layout: &Layout, is_user: bool) -> usize {
    match is_user {
        true => USER_BARE_RECORDS,
        false => MOVED_BARE_RECORDS * (layout.segment_bytes as usize >> 20).max(1),
    }
}

/// True if data that lies `at` so many bytes from a segment's start makes its last block look like a summary. A client that
/// knows the volume's id could write one that lists what it likes. Such data is neither appended nor written in place there.
pub(crate) fn forges_summary(layout: &Layout, at: u32, data: &[u8]) -> bool {
    let last = layout.segment_bytes - HEADER_BYTES as u32;
    let skip = last.checked_sub(at);
    let block = skip.and_then(|skip| data.get(skip as usize..));
    block.is_some_and(|block| block.starts_with(Volume::SUMMARY))
}

impl Open {
    /// True if an entry with its data may go to the open record.
    pub(super) fn fits_record(&self, layout: &Layout, entry_bytes: usize, data: &[u8]) -> bool {
        let at = self.builder.at() + self.builder.open_record_bytes();
        self.builder.fits_record(entry_bytes, data.len() as u32)
            && !forges_summary(layout, at, data)
    }

    /// True if an entry with its data may go to a further record. None may be open.
    pub(super) fn fits_new_record(&self, layout: &Layout, entry_bytes: usize, data: &[u8]) -> bool {
        let at = self.builder.at() + HEADER_BYTES as u32;
        self.builder.fits_new_record(entry_bytes, data.len() as u32)
            && !forges_summary(layout, at, data)
    }
}

impl Streams {
    /// The most records of a segment of a stream without a summary.
    pub(super) fn bare_records(&self, stream: Stream) -> usize {
        bare_records(&self.layout, stream.is_user())
    }
}
