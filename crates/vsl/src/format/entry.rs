//! What a record says of the space, piece by piece.

use forebay_placement::WriteClock;
use forebay_segments::format::envelope::Reader;
use forebay_units::{LINE_SECTORS, Line, Sector};

use forebay_extents::Place;

/// The most bytes that an entry takes in a header.
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

/// The two highest bits of a tag, and what the others mean.
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
/// Clocks stay below this; a clock that gets here stands still, and only the choice of segments to clean goes by it.
const CLOCK_END: u64 = 1 << (8 * WIDE);
/// Bytes of a rounded clock; its lowest bits say by how many bits the others are shifted.
const ROUNDED: usize = 4;
const SHIFT_BITS: u32 = 5;
const SHIFTED_BITS: u32 = 8 * ROUNDED as u32 - SHIFT_BITS;
const LINES_END: u64 = 1 << 61;

/// One of the streams that segments belong to. What a number means does not depend on the placement, so a volume's placement
/// can be changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Stream(pub u8);

impl Stream {
    /// The first stream of moved data; below are users'.
    const MOVED: u8 = 16;
    /// The stream that checkpoints write to.
    pub(crate) const META: Stream = Stream(31);
    /// Numbers that a volume uses.
    pub(crate) const COUNT: usize = 32;

    /// A stream of moved data, by number.
    pub(crate) fn moved(n: u8) -> Stream {
        Stream(Stream::MOVED + n)
    }

    /// True if users' writes go there.
    pub(crate) fn is_user(self) -> bool {
        self.0 < Stream::MOVED
    }
}

/// What is written beside data and nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MetaKind {
    /// A part of the table of segments.
    Table,
    /// A part of a checkpoint's body.
    Checkpoint,
    /// How the allocation queue continues. It is not a part of a checkpoint, and is valid in the order of records.
    Queue,
    /// Where the parts of a checkpoint's body lie.
    Index,
}

/// One piece of what a record does to the space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// New data for a piece of one line; its bytes are next in the record's payload.
    Data {
        /// Where in the space.
        sector: Sector,
        /// How many sectors, 1 to 8, not beyond the line.
        sectors: u8,
        /// CRC32C of the data.
        crc: u32,
    },
    /// Data that was moved here by the cleaner. It counts where the space still lies at its source.
    Moved {
        /// Where in the space.
        sector: Sector,
        /// How many sectors, 1 to 8, not beyond the line.
        sectors: u8,
        /// CRC32C of the data.
        crc: u32,
        /// Where it lay.
        from: Place,
        /// Time of the client's write, as a [`rounded_clock`].
        born: WriteClock,
    },
    /// A range is no longer mapped.
    Trim {
        /// Where it begins.
        sector: Sector,
        /// How many sectors, at least one.
        sectors: u64,
    },
    /// A line was written home, over what it superseded there. It counts where the space still lies at its source.
    Home {
        /// Which line.
        line: Line,
        /// CRC32C of the data.
        crc: u32,
        /// Where it lay.
        from: Place,
        /// Where it lies now.
        place: Place,
    },
    /// The first entry of a segment: what it is for.
    Opened {
        /// The stream it belongs to.
        stream: Stream,
        /// When it was opened.
        clock: WriteClock,
    },
    /// A node of the map, 4096 bytes of payload. Counts only if a checkpoint refers to it.
    Node {
        /// Its height above the leaves.
        level: u8,
        /// The first sector it can map.
        key: u64,
        /// CRC32C of the node.
        crc: u32,
    },
    /// Something else. Of a checkpoint, it counts only if the superblock leads to it.
    Meta {
        /// What it is.
        kind: MetaKind,
        /// Which part of it.
        index: u32,
        /// Sectors of payload.
        sectors: u16,
        /// CRC32C of those.
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

/// Bits by which a clock is shifted so that it fits.
fn clock_shift(clock: u64) -> u32 {
    (u64::BITS - clock.leading_zeros()).saturating_sub(SHIFTED_BITS)
}

/// Returns a clock as precise as an entry of moved data holds it: its highest 27 bits.
pub(crate) fn rounded_clock(clock: WriteClock) -> WriteClock {
    let clock = clock.0.min(CLOCK_END - 1);
    let shift = clock_shift(clock);
    WriteClock(clock >> shift << shift)
}

/// Returns the clock that four bytes of an entry hold; `None` if it is not as short as it can be.
fn shifted_clock(bits: u64) -> Option<WriteClock> {
    let (clock, shift) = (bits >> SHIFT_BITS, bits as u32 & ((1 << SHIFT_BITS) - 1));
    let clock = clock << shift;
    (clock < CLOCK_END && clock_shift(clock) == shift).then_some(WriteClock(clock))
}

impl Entry {
    /// Returns true if the entry is the next piece behind `before`, of which all but length and checksum follow.
    fn is_next(&self, before: Option<&Entry>) -> bool {
        match (before, self) {
            (
                Some(Entry::Data {
                    sector: first,
                    sectors,
                    ..
                }),
                Entry::Data { sector, .. },
            ) => first.0.checked_add(u64::from(*sectors)) == Some(sector.0),
            (
                Some(Entry::Moved {
                    sector: first,
                    sectors,
                    from: source,
                    born: clock,
                    ..
                }),
                Entry::Moved {
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

    /// The next piece behind `before`.
    fn next(before: &Entry, tag: u8, from: &mut Reader<'_>) -> Option<Entry> {
        let (sectors, crc) = ((tag & 7) + 1, from.uint(4)? as u32);
        let fits = |sector: Sector| {
            let in_line = u64::from(sector.in_line()) + u64::from(sectors) <= LINE_SECTORS;
            in_line && sector.0.checked_add(u64::from(sectors)).is_some()
        };
        match *before {
            Entry::Data {
                sector, sectors: n, ..
            } => {
                let sector = sector.plus(u64::from(n));
                fits(sector).then_some(Entry::Data {
                    sector,
                    sectors,
                    crc,
                })
            }
            Entry::Moved {
                sector,
                sectors: n,
                from,
                born,
                ..
            } => {
                let sector = sector.plus(u64::from(n));
                fits(sector).then_some(Entry::Moved {
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

    /// True if it changes where something lies.
    pub(crate) fn changes_the_map(&self) -> bool {
        matches!(
            self,
            Entry::Data { .. } | Entry::Moved { .. } | Entry::Trim { .. } | Entry::Home { .. }
        )
    }

    fn put_piece(out: &mut Vec<u8>, kind: u8, sector: Sector, sectors: u8, crc: u32) {
        out.push(piece_tag(kind, sector, sectors));
        put(out, sector.line().0, 8);
        put(out, crc.into(), 4);
    }

    fn piece(tag: u8, from: &mut Reader<'_>) -> Option<(Sector, u8, u32)> {
        let (first, sectors) = (u64::from(tag >> 3 & 7), (tag & 7) + 1);
        let line = from.uint(8).filter(|line| *line < LINES_END)?;
        let crc = from.uint(4)? as u32;
        let sector = Line(line).first_sector().plus(first);
        // The very last sector has no end that could be told.
        let end = sector.0.checked_add(u64::from(sectors));
        let in_line = first + u64::from(sectors) <= LINE_SECTORS;
        (in_line && end.is_some()).then_some((sector, sectors, crc))
    }

    fn other(tag: u8, from: &mut Reader<'_>) -> Option<Entry> {
        match tag {
            TRIM => {
                let (sector, sectors) = (Sector(from.uint(8)?), from.uint(8)?);
                let ends = sector.0.checked_add(sectors).is_some();
                (sectors > 0 && ends).then_some(Entry::Trim { sector, sectors })
            }
            OPENED => Some(Entry::Opened {
                stream: Stream(from.uint(1)? as u8),
                clock: WriteClock(from.uint(WIDE)?),
            }),
            NODE => Some(Entry::Node {
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
                Some(Entry::Meta {
                    kind,
                    index: from.uint(4)? as u32,
                    sectors: from.uint(2)? as u16,
                    crc: from.uint(4)? as u32,
                })
            }
            HOME => {
                let line = Line(from.uint(8)?);
                let end = (line.0 < LINES_END).then(|| line.first_sector().0);
                // The very last sector has no end that could be told.
                end?.checked_add(LINE_SECTORS)?;
                Some(Entry::Home {
                    line,
                    crc: from.uint(4)? as u32,
                    from: Place(from.uint(WIDE)?),
                    place: Place(from.uint(WIDE)?),
                })
            }
            _ => None,
        }
    }
}

impl forebay_segments::Entry for Entry {
    const BYTES_MIN: usize = NEXT_BYTES;

    fn encoded_len(&self) -> usize {
        match self {
            Entry::Data { .. } => DATA_BYTES,
            Entry::Moved { .. } => MOVED_BYTES,
            Entry::Trim { .. } => TRIM_BYTES,
            Entry::Opened { .. } => OPENED_BYTES,
            Entry::Node { .. } => NODE_BYTES,
            Entry::Meta { .. } => META_BYTES,
            Entry::Home { .. } => HOME_BYTES,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Entry::Data {
                sector,
                sectors,
                crc,
            } => Entry::put_piece(out, DATA, sector, sectors, crc),
            Entry::Moved {
                sector,
                sectors,
                crc,
                from,
                born,
            } => {
                Entry::put_piece(out, MOVED, sector, sectors, crc);
                put(out, from.0, WIDE);
                let shift = clock_shift(born.0);
                put(
                    out,
                    born.0 >> shift << SHIFT_BITS | u64::from(shift),
                    ROUNDED,
                );
            }
            Entry::Trim { sector, sectors } => {
                out.push(TRIM);
                put(out, sector.0, 8);
                put(out, sectors, 8);
            }
            Entry::Opened { stream, clock } => {
                out.extend_from_slice(&[OPENED, stream.0]);
                put_clock(out, clock);
            }
            Entry::Node { level, key, crc } => {
                out.extend_from_slice(&[NODE, level]);
                put(out, key, 8);
                put(out, crc.into(), 4);
            }
            Entry::Meta {
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
            Entry::Home {
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

    fn decode(from: &mut Reader<'_>) -> Option<Entry> {
        let tag = from.take(1)?[0];
        match tag >> 6 {
            DATA => {
                let (sector, sectors, crc) = Entry::piece(tag, from)?;
                Some(Entry::Data {
                    sector,
                    sectors,
                    crc,
                })
            }
            MOVED => {
                let (sector, sectors, crc) = Entry::piece(tag, from)?;
                Some(Entry::Moved {
                    sector,
                    sectors,
                    crc,
                    from: Place(from.uint(WIDE)?),
                    born: shifted_clock(from.uint(ROUNDED)?)?,
                })
            }
            _ => Entry::other(tag, from),
        }
    }

    fn encoded_len_behind(&self, before: Option<&Entry>) -> usize {
        match self.is_next(before) {
            true => NEXT_BYTES,
            false => self.encoded_len(),
        }
    }

    fn encode_behind(&self, before: Option<&Entry>, out: &mut Vec<u8>) {
        match *self {
            Entry::Data { sectors, crc, .. } | Entry::Moved { sectors, crc, .. }
                if self.is_next(before) =>
            {
                out.push(NEXT << 6 | (sectors - 1));
                put(out, crc.into(), 4);
            }
            _ => self.encode(out),
        }
    }

    fn decode_behind(before: Option<&Entry>, from: &mut Reader<'_>) -> Option<Entry> {
        match from.0.first().copied() {
            Some(tag) if tag >> 6 == NEXT => {
                let tag = from.take(1)?[0];
                let whole = tag & !7 == NEXT << 6;
                before
                    .filter(|_| whole)
                    .and_then(|before| Entry::next(before, tag, from))
            }
            _ => Entry::decode(from),
        }
    }

    fn payload_sectors(&self) -> u64 {
        match self {
            Entry::Data { sectors, .. } | Entry::Moved { sectors, .. } => u64::from(*sectors),
            Entry::Node { .. } => NODE_SECTORS,
            Entry::Meta { sectors, .. } => u64::from(*sectors),
            Entry::Trim { .. } | Entry::Opened { .. } | Entry::Home { .. } => 0,
        }
    }

    fn is_sound(&self, data: &[u8]) -> bool {
        match self {
            Entry::Data { crc, .. }
            | Entry::Moved { crc, .. }
            | Entry::Node { crc, .. }
            | Entry::Meta { crc, .. } => crc32c::crc32c(data) == *crc,
            Entry::Trim { .. } | Entry::Opened { .. } | Entry::Home { .. } => true,
        }
    }
}
