//! What a record says, piece by piece, as far as a log has to know it.

use forebay_units::SECTOR_BYTES;

use super::envelope::Reader;

/// One piece of what a record says. It may have data, which lies in the record's payload, one piece after
/// the other in the order of the entries.
pub trait Entry: Clone + PartialEq + Eq + std::fmt::Debug {
    /// The fewest bytes that one takes in a header, for what is allocated while decoding.
    const BYTES_MIN: usize;

    /// Its length in a header or summary, in bytes.
    fn encoded_len(&self) -> usize;

    /// Appends its bytes.
    ///
    /// # Panics
    /// If a number is too large for its field.
    fn encode(&self, out: &mut Vec<u8>);

    /// The entry that `from` begins with; none if there is no valid one.
    fn decode(from: &mut Reader<'_>) -> Option<Self>;

    /// Its length behind `before`, which is the entry before it in the same record, in bytes. No more than
    /// [`Entry::encoded_len`].
    fn encoded_len_behind(&self, before: Option<&Self>) -> usize {
        let _ = before;
        self.encoded_len()
    }

    /// Appends its bytes, which may leave out fields that follow from the entry before it in the same record.
    ///
    /// # Panics
    /// As [`Entry::encode`].
    fn encode_behind(&self, before: Option<&Self>, out: &mut Vec<u8>) {
        let _ = before;
        self.encode(out);
    }

    /// The entry that `from` begins with, behind `before`; none if there is no valid one.
    fn decode_behind(before: Option<&Self>, from: &mut Reader<'_>) -> Option<Self> {
        let _ = before;
        Self::decode(from)
    }

    /// Sectors of payload it has.
    fn payload_sectors(&self) -> u64;

    /// True if `data`, which is as long as its payload, is what was written.
    fn is_sound(&self, data: &[u8]) -> bool;
}

/// What tells one kind of log from another.
pub trait Layout: Clone + PartialEq + Eq + std::fmt::Debug + 'static {
    /// What its records say.
    type Entry: Entry;
    /// The magic of a record's header.
    const RECORD: &'static [u8; 8];
    /// The magic of a segment's summary.
    const SUMMARY: &'static [u8; 8];
    /// True if the records of a segment need not be numbered one after the other, so that a summary says
    /// each one's number.
    const NUMBERED: bool;
}

/// True if the entries' data has room in the payload, which is in whole sectors.
pub(super) fn payload_fits<E: Entry>(entries: &[E], payload_bytes: u32) -> bool {
    let sectors: u64 = entries.iter().map(Entry::payload_sectors).sum();
    sectors * SECTOR_BYTES <= u64::from(payload_bytes)
        && u64::from(payload_bytes).is_multiple_of(SECTOR_BYTES)
}

impl Reader<'_> {
    /// So many entries.
    pub(super) fn entries<E: Entry>(&mut self, count: usize) -> Option<Vec<E>> {
        let mut entries: Vec<E> = Vec::with_capacity(count.min(self.0.len() / E::BYTES_MIN));
        for _ in 0..count {
            let entry = E::decode_behind(entries.last(), self)?;
            entries.push(entry);
        }
        Some(entries)
    }
}

/// Appends the bytes of a record's entries.
pub(super) fn encode_entries<E: Entry>(entries: &[E], out: &mut Vec<u8>) {
    let mut before = None;
    for entry in entries {
        entry.encode_behind(before, out);
        before = Some(entry);
    }
}
