//! The entries of records: changes of the space, one fragment each.

use forebay_placement::WriteClock;
use forebay_segment_log::format::envelope::ByteReader;
use forebay_units::{BlockNumber, LINE_SECTORS, Sector};

use forebay_extent_map::LogPlace;

/// Maximum bytes of an entry in a header.
pub(crate) const ENTRY_BYTES_MAX: usize = HOME_BYTES;

const DATA_BYTES: usize = 13;
/// Bytes of the entry of moved data.
pub(crate) const MOVED_BYTES: usize = 24;
/// Bytes of the entry of data that continues the entry before it.
pub(crate) const NEXT_BYTES: usize = 5;
const TRIM_BYTES: usize = 17;
const OPENED_BYTES: usize = 9;
const NODE_BYTES: usize = 14;
const META_BYTES: usize = 12;
const HOME_BYTES: usize = 27;

/// The two highest bits of a tag, or the whole tag if its highest bit is set and the second is not.
const DATA: u8 = 0;
const MOVED: u8 = 1;
const NEXT: u8 = 3;
const TRIM: u8 = 0x80;
const OPENED: u8 = 0x81;
const NODE: u8 = 0x82;
const META: u8 = 0x83;
const HOME: u8 = 0x84;
/// Sectors in a node of the map.
const NODE_SECTORS: u64 = 8;
/// Bytes of a place and of a clock.
const WIDE: usize = 7;
/// Clocks stay below this value. A clock that reaches it stops. Only the choice of segments to clean depends on clocks.
const CLOCK_END: u64 = 1 << (8 * WIDE);
/// Bytes of a rounded clock. Its lowest bits contain the number of bits by which the others are shifted.
const ROUNDED: usize = 4;
const SHIFT_BITS: u32 = 5;
const SHIFTED_BITS: u32 = 8 * ROUNDED as u32 - SHIFT_BITS;
const LINES_END: u64 = 1 << 61;

/// A stream of segments. The meaning of a number does not depend on the placement, so the placement of a volume can
/// change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct StreamNumber(pub u8);

impl StreamNumber {
    /// The first stream of moved data. Lower numbers are streams of clients' writes.
    const MOVED: u8 = 16;
    /// The stream that checkpoints write to.
    pub(crate) const META: StreamNumber = StreamNumber(31);
    /// Numbers that a volume uses.
    pub(crate) const COUNT: usize = 32;

    /// Returns the stream of moved data with number `n`.
    pub(crate) fn moved(n: u8) -> StreamNumber {
        StreamNumber(StreamNumber::MOVED + n)
    }

    /// Returns true if the stream holds writes of clients.
    pub(crate) fn is_user(self) -> bool {
        self.0 < StreamNumber::MOVED
    }
}

/// The kinds of payload beside data and nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MetaKind {
    /// A chunk of the table of segments.
    Table,
    /// A part of a checkpoint's body.
    Checkpoint,
    /// A continuation of the allocation queue. It is not a part of a checkpoint, and is valid in the order of records.
    Queue,
    /// The places of the parts of a checkpoint's body.
    Index,
}

/// An entry of a record: one change of the space, or one item of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SpaceEntry {
    /// New data for a fragment of one block of 4 KiB. The data is next in the record's payload.
    Data {
        /// First sector.
        sector: Sector,
        /// Number of sectors, 1 to 8. They do not extend beyond the block.
        sectors: u8,
        /// CRC32C of the data.
        crc: u32,
    },
    /// Data that the cleaner moved here. It is valid for those sectors that the map still has at the old place.
    Moved {
        /// First sector.
        sector: Sector,
        /// Number of sectors, 1 to 8. They do not extend beyond the block.
        sectors: u8,
        /// CRC32C of the data.
        crc: u32,
        /// The old place.
        from: LogPlace,
        /// Time of the client's write, as a [`rounded_clock`].
        born: WriteClock,
    },
    /// A range is no longer mapped.
    Trim {
        /// First sector.
        sector: Sector,
        /// Number of sectors, at least one.
        sectors: u64,
    },
    /// A block of 4 KiB was written in place, over superseded data. The entry is valid for those sectors that the map
    /// still has at the old place.
    Home {
        /// The block.
        line: BlockNumber,
        /// CRC32C of the data.
        crc: u32,
        /// The old place.
        from: LogPlace,
        /// The new place.
        place: LogPlace,
    },
    /// The first entry of a segment: its purpose.
    Opened {
        /// Stream of the segment.
        stream: StreamNumber,
        /// Time at which the segment was opened.
        clock: WriteClock,
    },
    /// A node of the map, 4096 bytes of payload. It is valid only if a checkpoint refers to it.
    Node {
        /// Height above the leaves.
        level: u8,
        /// The first sector that the node can map.
        key: u64,
        /// CRC32C of the node.
        crc: u32,
    },
    /// Other metadata. Parts of a checkpoint are valid only if the superblock leads to them.
    Meta {
        /// The kind of metadata.
        kind: MetaKind,
        /// Number of the part or chunk.
        index: u32,
        /// Sectors of payload.
        sectors: u16,
        /// CRC32C of the payload.
        crc: u32,
    },
}

fn piece_tag(kind: u8, sector: Sector, sectors: u8) -> u8 {
    kind << 6 | sector.in_line() << 3 | (sectors - 1)
}

fn put(out: &mut Vec<u8>, n: u64, bytes: usize) {
    out.extend_from_slice(&n.to_le_bytes()[..bytes]);
}

/// Appends a clock, in seven bytes.
pub(super) fn put_clock(out: &mut Vec<u8>, clock: WriteClock) {
    put(out, clock.0.min(CLOCK_END - 1), WIDE);
}

/// Returns the number of bits by which a clock is shifted to fit.
fn clock_shift(clock: u64) -> u32 {
    (u64::BITS - clock.leading_zeros()).saturating_sub(SHIFTED_BITS)
}

/// Returns a clock with the precision of an entry of moved data: its highest 27 bits.
pub(crate) fn rounded_clock(clock: WriteClock) -> WriteClock {
    let clock = clock.0.min(CLOCK_END - 1);
    let shift = clock_shift(clock);
    WriteClock(clock >> shift << shift)
}

/// Decodes the four bytes of a rounded clock. `None` if the encoding is not the shortest.
fn shifted_clock(bits: u64) -> Option<WriteClock> {
    let (clock, shift) = (bits >> SHIFT_BITS, bits as u32 & ((1 << SHIFT_BITS) - 1));
    let clock = clock << shift;
    (clock < CLOCK_END && clock_shift(clock) == shift).then_some(WriteClock(clock))
}

impl SpaceEntry {
    /// Returns true if the entry directly continues `before`, so that everything but length and checksum follows from
    /// `before`.
    fn is_next(&self, before: Option<&SpaceEntry>) -> bool {
        match (before, self) {
            (
                Some(SpaceEntry::Data {
                    sector: first,
                    sectors,
                    ..
                }),
                SpaceEntry::Data { sector, .. },
            ) => first.0.checked_add(u64::from(*sectors)) == Some(sector.0),
            (
                Some(SpaceEntry::Moved {
                    sector: first,
                    sectors,
                    from: source,
                    born: clock,
                    ..
                }),
                SpaceEntry::Moved {
                    sector, from, born, ..
                },
            ) => {
                let sectors = u64::from(*sectors);
                let continues = first.0.checked_add(sectors) == Some(sector.0);
                continues && source.plus(sectors) == *from && clock == born
            }
            _ => false,
        }
    }

    /// Decodes the entry that continues `before`.
    fn next(before: &SpaceEntry, tag: u8, from: &mut ByteReader<'_>) -> Option<SpaceEntry> {
        let (sectors, crc) = ((tag & 7) + 1, from.uint(4)? as u32);
        let fits = |sector: Sector| {
            let in_line = u64::from(sector.in_line()) + u64::from(sectors) <= LINE_SECTORS;
            in_line && sector.0.checked_add(u64::from(sectors)).is_some()
        };
        match *before {
            SpaceEntry::Data {
                sector, sectors: n, ..
            } => {
                let sector = sector.plus(u64::from(n));
                fits(sector).then_some(SpaceEntry::Data {
                    sector,
                    sectors,
                    crc,
                })
            }
            SpaceEntry::Moved {
                sector,
                sectors: n,
                from,
                born,
                ..
            } => {
                let sector = sector.plus(u64::from(n));
                fits(sector).then_some(SpaceEntry::Moved {
                    sector,
                    sectors,
                    crc,
                    from: from.plus(u64::from(n)),
                    born,
                })
            }
            _ => None,
        }
    }

    /// Returns true if the entry changes the map.
    pub(crate) fn changes_the_map(&self) -> bool {
        matches!(
            self,
            SpaceEntry::Data { .. }
                | SpaceEntry::Moved { .. }
                | SpaceEntry::Trim { .. }
                | SpaceEntry::Home { .. }
        )
    }

    fn put_piece(out: &mut Vec<u8>, kind: u8, sector: Sector, sectors: u8, crc: u32) {
        out.push(piece_tag(kind, sector, sectors));
        put(out, sector.line().0, 8);
        put(out, crc.into(), 4);
    }

    fn piece(tag: u8, from: &mut ByteReader<'_>) -> Option<(Sector, u8, u32)> {
        let (first, sectors) = (u64::from(tag >> 3 & 7), (tag & 7) + 1);
        let line = from.uint(8).filter(|line| *line < LINES_END)?;
        let crc = from.uint(4)? as u32;
        let sector = BlockNumber(line).first_sector().plus(first);
        // A range up to the very last sector has no end that fits into 64 bits.
        let end = sector.0.checked_add(u64::from(sectors));
        let in_line = first + u64::from(sectors) <= LINE_SECTORS;
        (in_line && end.is_some()).then_some((sector, sectors, crc))
    }

    fn other(tag: u8, from: &mut ByteReader<'_>) -> Option<SpaceEntry> {
        match tag {
            TRIM => {
                let (sector, sectors) = (Sector(from.uint(8)?), from.uint(8)?);
                let ends = sector.0.checked_add(sectors).is_some();
                (sectors > 0 && ends).then_some(SpaceEntry::Trim { sector, sectors })
            }
            OPENED => Some(SpaceEntry::Opened {
                stream: StreamNumber(from.uint(1)? as u8),
                clock: WriteClock(from.uint(WIDE)?),
            }),
            NODE => Some(SpaceEntry::Node {
                level: from.uint(1)? as u8,
                key: from.uint(8)?,
                crc: from.uint(4)? as u32,
            }),
            META => {
                let kind = match from.uint(1)? {
                    0 => MetaKind::Table,
                    1 => MetaKind::Checkpoint,
                    2 => MetaKind::Queue,
                    3 => MetaKind::Index,
                    _ => return None,
                };
                Some(SpaceEntry::Meta {
                    kind,
                    index: from.uint(4)? as u32,
                    sectors: from.uint(2)? as u16,
                    crc: from.uint(4)? as u32,
                })
            }
            HOME => {
                let line = BlockNumber(from.uint(8)?);
                let end = (line.0 < LINES_END).then(|| line.first_sector().0);
                // A range up to the very last sector has no end that fits into 64 bits.
                end?.checked_add(LINE_SECTORS)?;
                Some(SpaceEntry::Home {
                    line,
                    crc: from.uint(4)? as u32,
                    from: LogPlace(from.uint(WIDE)?),
                    place: LogPlace(from.uint(WIDE)?),
                })
            }
            _ => None,
        }
    }
}

impl forebay_segment_log::RecordEntry for SpaceEntry {
    const BYTES_MIN: usize = NEXT_BYTES;

    fn encoded_len(&self) -> usize {
        match self {
            SpaceEntry::Data { .. } => DATA_BYTES,
            SpaceEntry::Moved { .. } => MOVED_BYTES,
            SpaceEntry::Trim { .. } => TRIM_BYTES,
            SpaceEntry::Opened { .. } => OPENED_BYTES,
            SpaceEntry::Node { .. } => NODE_BYTES,
            SpaceEntry::Meta { .. } => META_BYTES,
            SpaceEntry::Home { .. } => HOME_BYTES,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            SpaceEntry::Data {
                sector,
                sectors,
                crc,
            } => SpaceEntry::put_piece(out, DATA, sector, sectors, crc),
            SpaceEntry::Moved {
                sector,
                sectors,
                crc,
                from,
                born,
            } => {
                SpaceEntry::put_piece(out, MOVED, sector, sectors, crc);
                put(out, from.0, WIDE);
                let shift = clock_shift(born.0);
                put(
                    out,
                    born.0 >> shift << SHIFT_BITS | u64::from(shift),
                    ROUNDED,
                );
            }
            SpaceEntry::Trim { sector, sectors } => {
                out.push(TRIM);
                put(out, sector.0, 8);
                put(out, sectors, 8);
            }
            SpaceEntry::Opened { stream, clock } => {
                out.extend_from_slice(&[OPENED, stream.0]);
                put_clock(out, clock);
            }
            SpaceEntry::Node { level, key, crc } => {
                out.extend_from_slice(&[NODE, level]);
                put(out, key, 8);
                put(out, crc.into(), 4);
            }
            SpaceEntry::Meta {
                kind,
                index,
                sectors,
                crc,
            } => {
                let kind = match kind {
                    MetaKind::Table => 0,
                    MetaKind::Checkpoint => 1,
                    MetaKind::Queue => 2,
                    MetaKind::Index => 3,
                };
                out.extend_from_slice(&[META, kind]);
                put(out, index.into(), 4);
                put(out, sectors.into(), 2);
                put(out, crc.into(), 4);
            }
            SpaceEntry::Home {
                line,
                crc,
                from,
                place,
            } => {
                out.push(HOME);
                put(out, line.0, 8);
                put(out, crc.into(), 4);
                put(out, from.0, WIDE);
                put(out, place.0, WIDE);
            }
        }
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<SpaceEntry> {
        let tag = from.take(1)?[0];
        match tag >> 6 {
            DATA => {
                let (sector, sectors, crc) = SpaceEntry::piece(tag, from)?;
                Some(SpaceEntry::Data {
                    sector,
                    sectors,
                    crc,
                })
            }
            MOVED => {
                let (sector, sectors, crc) = SpaceEntry::piece(tag, from)?;
                Some(SpaceEntry::Moved {
                    sector,
                    sectors,
                    crc,
                    from: LogPlace(from.uint(WIDE)?),
                    born: shifted_clock(from.uint(ROUNDED)?)?,
                })
            }
            _ => SpaceEntry::other(tag, from),
        }
    }

    fn encoded_len_behind(&self, before: Option<&SpaceEntry>) -> usize {
        if self.is_next(before) {
            NEXT_BYTES
        } else {
            self.encoded_len()
        }
    }

    fn encode_behind(&self, before: Option<&SpaceEntry>, out: &mut Vec<u8>) {
        match *self {
            SpaceEntry::Data { sectors, crc, .. } | SpaceEntry::Moved { sectors, crc, .. }
                if self.is_next(before) =>
            {
                out.push(NEXT << 6 | (sectors - 1));
                put(out, crc.into(), 4);
            }
            _ => self.encode(out),
        }
    }

    fn decode_behind(before: Option<&SpaceEntry>, from: &mut ByteReader<'_>) -> Option<SpaceEntry> {
        match from.0.first().copied() {
            Some(tag) if tag >> 6 == NEXT => {
                let tag = from.take(1)?[0];
                let whole = tag & !7 == NEXT << 6;
                before
                    .filter(|_| whole)
                    .and_then(|before| SpaceEntry::next(before, tag, from))
            }
            _ => SpaceEntry::decode(from),
        }
    }

    fn payload_sectors(&self) -> u64 {
        match self {
            SpaceEntry::Data { sectors, .. } | SpaceEntry::Moved { sectors, .. } => {
                u64::from(*sectors)
            }
            SpaceEntry::Node { .. } => NODE_SECTORS,
            SpaceEntry::Meta { sectors, .. } => u64::from(*sectors),
            SpaceEntry::Trim { .. } | SpaceEntry::Opened { .. } | SpaceEntry::Home { .. } => 0,
        }
    }

    fn is_sound(&self, data: &[u8]) -> bool {
        match self {
            SpaceEntry::Data { crc, .. }
            | SpaceEntry::Moved { crc, .. }
            | SpaceEntry::Node { crc, .. }
            | SpaceEntry::Meta { crc, .. } => crc32c::crc32c(data) == *crc,
            SpaceEntry::Trim { .. } | SpaceEntry::Opened { .. } | SpaceEntry::Home { .. } => true,
        }
    }
}
