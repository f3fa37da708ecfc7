//! Entries of records: the interface between a log and the layer above.

use forebay_units::SECTOR_BYTES;

use super::envelope::ByteReader;

/// An entry of a record. It may have data in the record's payload, which holds the data of all entries in their order.
pub trait RecordEntry: Clone + PartialEq + Eq + std::fmt::Debug {
    /// The fewest bytes of an encoded entry, which limits allocations while decoding.
    const BYTES_MIN: usize;

    /// Returns the length in a header or summary, in bytes.
    fn encoded_len(&self) -> usize;

    /// Appends the encoded entry.
    ///
    /// # Panics
    /// If a number is too large for its field.
    fn encode(&self, out: &mut Vec<u8>);

    /// Decodes the entry at the beginning of `from`. `None` if it is invalid.
    fn decode(from: &mut ByteReader<'_>) -> Option<Self>;

    /// Returns the length in bytes if encoded behind `before`, the previous entry in the same record. At most
    /// [`RecordEntry::encoded_len`].
    fn encoded_len_behind(&self, before: Option<&Self>) -> usize {
        let _ = before;
        self.encoded_len()
    }

    /// Appends the encoded entry, which may omit fields that follow from the previous entry in the same record.
    ///
    /// # Panics
    /// As [`RecordEntry::encode`].
    fn encode_behind(&self, before: Option<&Self>, out: &mut Vec<u8>) {
        let _ = before;
        self.encode(out);
    }

    /// Decodes the entry at the beginning of `from`, behind `before`. `None` if it is invalid.
    fn decode_behind(before: Option<&Self>, from: &mut ByteReader<'_>) -> Option<Self> {
        let _ = before;
        Self::decode(from)
    }

    /// Returns the number of payload sectors.
    fn payload_sectors(&self) -> u64;

    /// Returns true if `data`, which has the length of the payload, is undamaged.
    fn is_sound(&self, data: &[u8]) -> bool;
}

/// The properties of a kind of log.
pub trait LogLayout: Clone + PartialEq + Eq + std::fmt::Debug + 'static {
    /// The type of the entries.
    type Entry: RecordEntry;
    /// The magic of a record's header.
    const RECORD: &'static [u8; 8];
    /// The magic of a segment's summary.
    const SUMMARY: &'static [u8; 8];
    /// True if records of a segment may have numbers that are not consecutive, so that a summary contains the number of
    /// each record.
    const NUMBERED: bool;
}

/// Returns true if the entries' data fits the payload, which consists of whole sectors.
pub(super) fn payload_fits<E: RecordEntry>(entries: &[E], payload_bytes: u32) -> bool {
    let sectors: u64 = entries.iter().map(RecordEntry::payload_sectors).sum();
    sectors * SECTOR_BYTES <= u64::from(payload_bytes)
        && u64::from(payload_bytes).is_multiple_of(SECTOR_BYTES)
}

impl ByteReader<'_> {
    /// Decodes `count` entries.
    pub(super) fn entries<E: RecordEntry>(&mut self, count: usize) -> Option<Vec<E>> {
        let mut entries: Vec<E> = Vec::with_capacity(count.min(self.0.len() / E::BYTES_MIN));
        for _ in 0..count {
            let entry = E::decode_behind(entries.last(), self)?;
            entries.push(entry);
        }
        Some(entries)
    }
}

/// Appends the encoded entries of a record.
pub(super) fn encode_entries<E: RecordEntry>(entries: &[E], out: &mut Vec<u8>) {
    let mut before = None;
    for entry in entries {
        entry.encode_behind(before, out);
        before = Some(entry);
    }
}
