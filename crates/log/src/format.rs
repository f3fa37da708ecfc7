//! The bytes on a log device. `docs/format/log.md` is the same in prose and tables.
//!
//! All integers are little-endian. Every structure carries a magic, the version, the volume's id and
//! a CRC32C over its whole length with the CRC field taken as zero. Decoding never panics and
//! allocates no more than the bytes it was given justify.

use forebay_units::{Epoch, LINE_SECTORS, Line, RecordSeq, SECTOR_BYTES, Sector, SegmentSeq};

/// The format's version. Another version is refused, not guessed at.
pub const VERSION: u32 = 1;
/// Length of a superblock, of a record's header and of a summary's last block, in bytes.
pub const HEADER_BYTES: usize = 4096;
/// Where superblock A lies, in bytes from the start of the log device.
pub const SUPERBLOCK_A_AT: u64 = 0;
/// Where superblock B lies: far from A, so that one scratch does not take both.
pub const SUPERBLOCK_B_AT: u64 = 512 << 10;
/// Where segment 0 begins.
pub const SEGMENTS_AT: u64 = 1 << 20;

const SUPERBLOCK_MAGIC: &[u8; 8] = b"FORELOG\x01";
const RECORD_MAGIC: &[u8; 8] = b"FOREREC\x01";
const SUMMARY_MAGIC: &[u8; 8] = b"FORESUM\x01";

const VERSION_AT: usize = 8;
const CRC_AT: usize = 12;
const VOLUME_AT: usize = 16;
/// Where the fields of a superblock's layer payload begin.
pub(crate) const SUPERBLOCK_PAYLOAD_AT: usize = 128;
/// The longest layer payload a superblock can carry, in bytes.
pub const LAYER_BYTES_MAX: usize = HEADER_BYTES - SUPERBLOCK_PAYLOAD_AT;
const RECORD_ENTRIES_AT: usize = 80;
/// Bytes of entries that fit one record's header.
pub(crate) const RECORD_ENTRY_BYTES_MAX: usize = HEADER_BYTES - RECORD_ENTRIES_AT;
const SUMMARY_BODY_AT: usize = 80;
/// Bytes in a summary's body for each record, before its entries.
pub(crate) const SUMMARY_RECORD_BYTES: usize = 12;
/// Bytes of a data entry.
pub(crate) const DATA_ENTRY_BYTES: usize = 10;
/// Bytes of a range entry.
pub(crate) const RANGE_ENTRY_BYTES: usize = 13;

const FLAG_CLEAN: u32 = 1;
const FLAG_ABANDONED: u32 = 2;
const FLAG_CONTINUES: u16 = 1;

/// Identifies a volume: 16 random bytes, chosen when it is created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VolumeId(pub [u8; 16]);

impl std::fmt::Display for VolumeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Why bytes are not the structure they were read as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// Too short, or another magic.
    #[error("no {0} here (wrong magic)")]
    Magic(&'static str),
    /// Written by another version of the format.
    #[error("a {what} of format version {found}; this program reads version {VERSION}")]
    Version {
        /// Which structure.
        what: &'static str,
        /// The version it carries.
        found: u32,
    },
    /// The bytes do not match their checksum.
    #[error("the {0} does not match its checksum")]
    Checksum(&'static str),
    /// The checksum is right and the content impossible.
    #[error("the {0} contradicts itself")]
    Content(&'static str),
}

/// What a range without data means.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RangeKind {
    /// It reads as zeroes.
    Zero,
    /// It is no longer needed.
    Discard,
    /// Its data was damaged in the log: it cannot be read until it is written again.
    Lost,
}

/// One piece of what a record does to the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// New data for a piece of one line; its bytes are next in the record's payload.
    Data {
        /// Where on the volume.
        sector: Sector,
        /// How many sectors, 1 to 8, not beyond the line.
        sectors: u8,
        /// CRC32C of the data.
        crc: u32,
    },
    /// A range without data.
    Range {
        /// What it becomes.
        kind: RangeKind,
        /// Where on the volume.
        sector: Sector,
        /// How many sectors, at least 1.
        sectors: u64,
    },
}

impl Entry {
    /// Its length in a header or summary, in bytes.
    pub(crate) fn encoded_len(&self) -> usize {
        match self {
            Entry::Data { .. } => DATA_ENTRY_BYTES,
            Entry::Range { .. } => RANGE_ENTRY_BYTES,
        }
    }

    /// Sectors of payload it has.
    pub fn payload_sectors(&self) -> u64 {
        match self {
            Entry::Data { sectors, .. } => u64::from(*sectors),
            Entry::Range { .. } => 0,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Entry::Data {
                sector,
                sectors,
                crc,
            } => {
                out.push(sector.in_line() << 3 | (sectors - 1));
                out.extend_from_slice(&sector.line().0.to_le_bytes()[..5]);
                out.extend_from_slice(&crc.to_le_bytes());
            }
            Entry::Range {
                kind,
                sector,
                sectors,
            } => {
                let kind = match kind {
                    RangeKind::Zero => 1u8,
                    RangeKind::Discard => 2,
                    RangeKind::Lost => 3,
                };
                out.push(kind << 6);
                out.extend_from_slice(&sector.0.to_le_bytes()[..6]);
                out.extend_from_slice(&sectors.to_le_bytes()[..6]);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Entry> {
        let tag = from.take(1)?[0];
        let kind = match tag >> 6 {
            0 => {
                let (first, sectors) = (u64::from(tag >> 3), (tag & 7) + 1);
                let line = Line(from.uint(5)?);
                let crc = from.uint(4)? as u32;
                let sector = line.first_sector().plus(first);
                return (first + u64::from(sectors) <= LINE_SECTORS).then_some(Entry::Data {
                    sector,
                    sectors,
                    crc,
                });
            }
            1 => RangeKind::Zero,
            2 => RangeKind::Discard,
            _ => RangeKind::Lost,
        };
        let (sector, sectors) = (Sector(from.uint(6)?), from.uint(6)?);
        (tag & 0x3f == 0 && sectors > 0).then_some(Entry::Range {
            kind,
            sector,
            sectors,
        })
    }
}

/// What a log says of itself. Two copies, A and B; the one of the higher generation counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Whose log this is.
    pub volume: VolumeId,
    /// Grows by one with every superblock written.
    pub generation: u64,
    /// The epoch being written.
    pub epoch: Epoch,
    /// Nothing in this segment or a later one counts if it is of an earlier epoch.
    pub epoch_segment: SegmentSeq,
    /// The oldest segment still needed; recovery starts there.
    pub tail: SegmentSeq,
    /// The record that segment begins with.
    pub tail_record: RecordSeq,
    /// Every record up to this one was durable when this was written.
    pub stable: RecordSeq,
    /// Bytes of the log device in use.
    pub len: u64,
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// Segments in the ring.
    pub segment_count: u64,
    /// What records are padded to, in bytes: the device's atomic block.
    pub block: u32,
    /// True if the log was empty and everything home when this was written.
    pub clean: bool,
    /// True if the log failed while in use and the home device went on without it: what the log
    /// holds must not be applied.
    pub abandoned: bool,
    /// What the layer above keeps here; opaque to the log.
    pub layer: Vec<u8>,
}

impl Superblock {
    /// The bytes of the superblock.
    ///
    /// # Panics
    /// If `layer` is longer than [`LAYER_BYTES_MAX`].
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        assert!(
            self.layer.len() <= LAYER_BYTES_MAX,
            "layer payload of {} bytes",
            self.layer.len()
        );
        let mut out = begin(SUPERBLOCK_MAGIC, self.volume);
        for n in [
            self.generation,
            self.epoch.0,
            self.epoch_segment.0,
            self.tail.0,
            self.tail_record.0,
            self.stable.0,
            self.len,
            self.segment_count,
        ] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        let flags = if self.clean { FLAG_CLEAN } else { 0 }
            | if self.abandoned { FLAG_ABANDONED } else { 0 };
        for n in [
            self.segment_bytes,
            self.block,
            flags,
            self.layer.len() as u32,
        ] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.resize(SUPERBLOCK_PAYLOAD_AT, 0);
        out.extend_from_slice(&self.layer);
        finish(out)
    }

    /// The superblock in `bytes`.
    ///
    /// # Errors
    /// If there is none, of this version, undamaged and consistent in itself.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, FormatError> {
        const WHAT: &str = "superblock";
        let mut from = open(bytes, SUPERBLOCK_MAGIC, WHAT)?;
        let decoded = (|| {
            let volume = from.volume()?;
            let mut next = || from.uint(8);
            let (generation, epoch, epoch_segment) = (next()?, next()?, next()?);
            let (tail, tail_record, stable) = (next()?, next()?, next()?);
            let (len, segment_count) = (next()?, next()?);
            let (segment_bytes, block) = (from.uint(4)? as u32, from.uint(4)? as u32);
            let (flags, layer_len) = (from.uint(4)? as u32, from.uint(4)? as usize);
            from.take(SUPERBLOCK_PAYLOAD_AT - (HEADER_BYTES - from.0.len()))?;
            let superblock = Superblock {
                volume,
                generation,
                epoch: Epoch(epoch),
                epoch_segment: SegmentSeq(epoch_segment),
                tail: SegmentSeq(tail),
                tail_record: RecordSeq(tail_record),
                stable: RecordSeq(stable),
                len,
                segment_bytes,
                segment_count,
                block,
                clean: flags & FLAG_CLEAN != 0,
                abandoned: flags & FLAG_ABANDONED != 0,
                layer: from.take(layer_len)?.to_vec(),
            };
            superblock.is_consistent().then_some(superblock)
        })();
        decoded.ok_or(FormatError::Content(WHAT))
    }

    fn is_consistent(&self) -> bool {
        let ring = u64::from(self.segment_bytes).checked_mul(self.segment_count);
        let block = self.block;
        (512..=HEADER_BYTES as u32).contains(&block)
            && block.is_power_of_two()
            && self.segment_bytes.is_multiple_of(HEADER_BYTES as u32)
            && self.segment_bytes as usize >= 4 * HEADER_BYTES
            && self.segment_count > 0
            && ring
                .and_then(|ring| ring.checked_add(SEGMENTS_AT))
                .is_some_and(|end| end <= self.len)
            && self.tail_record.0 > 0
            && [
                self.epoch_segment.0,
                self.tail.0,
                self.tail_record.0,
                self.stable.0,
                self.epoch.0,
            ]
            .into_iter()
            .all(|n| n < 1 << 60)
    }
}

/// The header of a record: what it does to the volume. The payload follows it at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Whose record this is.
    pub volume: VolumeId,
    /// The epoch it was written in.
    pub epoch: Epoch,
    /// The segment it lies in.
    pub segment: SegmentSeq,
    /// Where in the segment its header begins, in bytes.
    pub offset: u32,
    /// Its place in the order of all records.
    pub seq: RecordSeq,
    /// Every record up to this one was durable when it was composed.
    pub stable: RecordSeq,
    /// Bytes of payload, padded to the log's block.
    pub payload_bytes: u32,
    /// True if its last write goes on in the next record: the two are applied together or not at
    /// all.
    pub continues: bool,
    /// What it does, in order.
    pub entries: Vec<Entry>,
}

impl Record {
    /// The bytes of the header.
    ///
    /// # Panics
    /// If there are more entries than fit.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = begin(RECORD_MAGIC, self.volume);
        for n in [self.epoch.0, self.segment.0, self.seq.0, self.stable.0] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.payload_bytes.to_le_bytes());
        out.extend_from_slice(&(self.entries.len() as u16).to_le_bytes());
        out.extend_from_slice(&continues_flag(self.continues).to_le_bytes());
        out.resize(RECORD_ENTRIES_AT, 0);
        for entry in &self.entries {
            entry.encode(&mut out);
        }
        finish(out)
    }

    /// The record whose header is in `bytes`.
    ///
    /// # Errors
    /// If there is none, of this version, undamaged and consistent in itself.
    pub fn decode(bytes: &[u8]) -> Result<Record, FormatError> {
        const WHAT: &str = "record header";
        let mut from = open(bytes, RECORD_MAGIC, WHAT)?;
        let decoded = (|| {
            let volume = from.volume()?;
            let (epoch, segment) = (Epoch(from.uint(8)?), SegmentSeq(from.uint(8)?));
            let (seq, stable) = (RecordSeq(from.uint(8)?), RecordSeq(from.uint(8)?));
            let (offset, payload_bytes) = (from.uint(4)? as u32, from.uint(4)? as u32);
            let (count, continues) = (from.uint(2)? as usize, from.continues()?);
            from.take(RECORD_ENTRIES_AT - (HEADER_BYTES - from.0.len()))?;
            let entries = from.entries(count)?;
            let record = Record {
                volume,
                epoch,
                segment,
                offset,
                seq,
                stable,
                payload_bytes,
                continues,
                entries,
            };
            payload_fits(&record.entries, record.payload_bytes).then_some(record)
        })();
        decoded.ok_or(FormatError::Content(WHAT))
    }
}

/// A record as a summary tells of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SummaryRecord {
    /// Where in the segment its header begins, in bytes.
    pub offset: u32,
    /// Bytes of payload, padded to the log's block.
    pub payload_bytes: u32,
    /// As in [`Record::continues`].
    pub continues: bool,
    /// What it does, in order.
    pub entries: Vec<Entry>,
}

/// What lies at the end of a full segment and lists all it holds, so that recovery reads one place.
///
/// Its last block holds the fixed fields and the first part of the body; a longer body goes on in
/// the blocks before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Whose segment this is.
    pub volume: VolumeId,
    /// The epoch of all its records.
    pub epoch: Epoch,
    /// The segment.
    pub segment: SegmentSeq,
    /// Its first record; the others are numbered on from it.
    pub first: RecordSeq,
    /// Every record up to this one was durable when it was composed.
    pub stable: RecordSeq,
    /// The records, in order.
    pub records: Vec<SummaryRecord>,
}

/// Length in bytes of a summary with a body of `body` bytes.
pub(crate) fn summary_len(body: usize) -> usize {
    let first = HEADER_BYTES - SUMMARY_BODY_AT;
    HEADER_BYTES + body.saturating_sub(first).next_multiple_of(HEADER_BYTES)
}

impl Summary {
    /// The bytes of the summary, to stand at the very end of the segment.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for record in &self.records {
            body.extend_from_slice(&record.offset.to_le_bytes());
            body.extend_from_slice(&record.payload_bytes.to_le_bytes());
            body.extend_from_slice(&(record.entries.len() as u16).to_le_bytes());
            body.extend_from_slice(&continues_flag(record.continues).to_le_bytes());
            for entry in &record.entries {
                entry.encode(&mut body);
            }
        }
        let total = summary_len(body.len());
        let mut last = begin(SUMMARY_MAGIC, self.volume);
        for n in [self.epoch.0, self.segment.0, self.first.0, self.stable.0] {
            last.extend_from_slice(&n.to_le_bytes());
        }
        for n in [self.records.len() as u32, body.len() as u32, total as u32] {
            last.extend_from_slice(&n.to_le_bytes());
        }
        last.resize(SUMMARY_BODY_AT, 0);
        let here = body.len().min(HEADER_BYTES - SUMMARY_BODY_AT);
        last.extend_from_slice(&body[..here]);
        last.resize(HEADER_BYTES, 0);
        let mut out = body[here..].to_vec();
        out.resize(total - HEADER_BYTES, 0);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&last), &out);
        last[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&last);
        out
    }

    /// How long the summary is whose last block this is, in bytes; at least one block. Says nothing
    /// about whether it is sound.
    ///
    /// # Errors
    /// If it is no summary's last block, or names an impossible length.
    pub fn total_len(last: &[u8], segment_bytes: u32) -> Result<usize, FormatError> {
        const WHAT: &str = "summary";
        let mut from = preamble(last, SUMMARY_MAGIC, WHAT)?;
        from.take(72 - VOLUME_AT)
            .ok_or(FormatError::Content(WHAT))?;
        let total = from.uint(4).ok_or(FormatError::Content(WHAT))? as usize;
        let fits = total >= HEADER_BYTES
            && total.is_multiple_of(HEADER_BYTES)
            && total < segment_bytes as usize;
        if fits {
            Ok(total)
        } else {
            Err(FormatError::Content(WHAT))
        }
    }

    /// The summary in `bytes`, which are as many as [`Summary::total_len`] says.
    ///
    /// # Errors
    /// If there is none, of this version, undamaged and consistent in itself.
    pub fn decode(bytes: &[u8]) -> Result<Summary, FormatError> {
        const WHAT: &str = "summary";
        let split = bytes
            .len()
            .checked_sub(HEADER_BYTES)
            .ok_or(FormatError::Magic(WHAT))?;
        let (rest, last) = bytes.split_at(split);
        let mut from = preamble(last, SUMMARY_MAGIC, WHAT)?;
        if crc32c::crc32c_append(crc_without_field(last), rest) != stored_crc(last) {
            return Err(FormatError::Checksum(WHAT));
        }
        let decoded = (|| {
            let volume = from.volume()?;
            let (epoch, segment) = (Epoch(from.uint(8)?), SegmentSeq(from.uint(8)?));
            let (first, stable) = (RecordSeq(from.uint(8)?), RecordSeq(from.uint(8)?));
            let (count, body_len) = (from.uint(4)? as usize, from.uint(4)? as usize);
            let total = from.uint(4)? as usize;
            if total != bytes.len() || summary_len(body_len) != total {
                return None;
            }
            let mut body = last[SUMMARY_BODY_AT..].to_vec();
            body.extend_from_slice(rest);
            let mut body = Reader(body.get(..body_len)?);
            let mut records = Vec::new();
            for _ in 0..count {
                records.push(body.summary_record()?);
            }
            (body.0.is_empty() && !records.is_empty()).then_some(Summary {
                volume,
                epoch,
                segment,
                first,
                stable,
                records,
            })
        })();
        decoded.ok_or(FormatError::Content(WHAT))
    }
}

fn continues_flag(continues: bool) -> u16 {
    if continues { FLAG_CONTINUES } else { 0 }
}

fn payload_fits(entries: &[Entry], payload_bytes: u32) -> bool {
    let sectors: u64 = entries.iter().map(Entry::payload_sectors).sum();
    sectors * SECTOR_BYTES <= u64::from(payload_bytes)
        && u64::from(payload_bytes).is_multiple_of(SECTOR_BYTES)
}

fn begin(magic: &[u8; 8], volume: VolumeId) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.extend_from_slice(magic);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&volume.0);
    out
}

fn finish(mut out: Vec<u8>) -> [u8; HEADER_BYTES] {
    out.resize(out.len().max(HEADER_BYTES), 0);
    let mut block: [u8; HEADER_BYTES] = out.try_into().expect("more entries than a header holds");
    let crc = crc32c::crc32c(&block);
    block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    block
}

fn stored_crc(block: &[u8]) -> u32 {
    u32::from_le_bytes(block[CRC_AT..CRC_AT + 4].try_into().expect("four bytes"))
}

fn crc_without_field(block: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&block[..CRC_AT]);
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &[0; 4]), &block[CRC_AT + 4..])
}

/// Checks magic, then version: a later version may check itself another way.
fn preamble<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    what: &'static str,
) -> Result<Reader<'a>, FormatError> {
    if bytes.len() != HEADER_BYTES || &bytes[..8] != magic {
        return Err(FormatError::Magic(what));
    }
    let field: [u8; 4] = bytes[VERSION_AT..VERSION_AT + 4]
        .try_into()
        .expect("four bytes");
    let found = u32::from_le_bytes(field);
    if found != VERSION {
        // A flipped bit in the version is damage, not another version.
        let mut as_ours = bytes.to_vec();
        as_ours[VERSION_AT..VERSION_AT + 4].copy_from_slice(&VERSION.to_le_bytes());
        if crc_without_field(&as_ours) == stored_crc(bytes) {
            return Err(FormatError::Checksum(what));
        }
        return Err(FormatError::Version { what, found });
    }
    Ok(Reader(&bytes[VOLUME_AT..]))
}

fn open<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    what: &'static str,
) -> Result<Reader<'a>, FormatError> {
    let reader = preamble(bytes, magic, what)?;
    if crc_without_field(bytes) != stored_crc(bytes) {
        return Err(FormatError::Checksum(what));
    }
    Ok(reader)
}

/// What is left to decode.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn uint(&mut self, bytes: usize) -> Option<u64> {
        let mut wide = [0; 8];
        wide[..bytes].copy_from_slice(self.take(bytes)?);
        Some(u64::from_le_bytes(wide))
    }

    fn volume(&mut self) -> Option<VolumeId> {
        Some(VolumeId(self.take(16)?.try_into().ok()?))
    }

    fn continues(&mut self) -> Option<bool> {
        match self.uint(2)? as u16 {
            0 => Some(false),
            FLAG_CONTINUES => Some(true),
            _ => None,
        }
    }

    fn entries(&mut self, count: usize) -> Option<Vec<Entry>> {
        let mut entries = Vec::with_capacity(count.min(self.0.len() / DATA_ENTRY_BYTES));
        for _ in 0..count {
            entries.push(Entry::decode(self)?);
        }
        Some(entries)
    }

    fn summary_record(&mut self) -> Option<SummaryRecord> {
        let (offset, payload_bytes) = (self.uint(4)? as u32, self.uint(4)? as u32);
        let (count, continues) = (self.uint(2)? as usize, self.continues()?);
        let entries = self.entries(count)?;
        payload_fits(&entries, payload_bytes).then_some(SummaryRecord {
            offset,
            payload_bytes,
            continues,
            entries,
        })
    }
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
