//! What is known of every sector of the volume that is not simply at home.
//!
//! Three sources, newest first: pieces of data (in the log or its buffer), marked ranges (zeroed,
//! discarded, lost), and home. Data is put on top of marks; a mark takes away the data beneath it.
//! So wherever a sector has data, the data is newer than any mark.
//!
//! Invariants:
//! - A piece's sectors are live where it is the newest data; `live[slot]` counts them by segment.
//! - An entry leaves only when something newer takes its place or when it is home and the tail has
//!   passed it. So a sector that is not in the map has no copy between tail and head either.

use std::ops::Range;

use forebay_log::{Addr, RangeKind, RingGeometry};
use forebay_units::{LINE_SECTORS, Line, RecordSeq, Sector, SegmentSeq};

pub(crate) use crate::piece::Piece;
use crate::piece::mask;
use crate::ranges::{Mark, RangeMap};
use crate::table::{LineTable, Spot};

/// Lines that are looked at in one go when a range is marked: a few milliseconds' worth.
const LINES_AT_ONCE: u64 = 16 << 10;

/// What a piece of data and a mark take of the memory that a volume's map is allowed, in bytes: a
/// little more than their entries do, with what their tables leave empty while they grow. What tables
/// keep empty after most has left is not counted, so that each entry that leaves makes room for one.
const PIECE_BYTES: u64 = 20;
const MARK_BYTES: u64 = 32;
/// More than one more piece or mark can add to that: a mark within another leaves three.
const ENTRY_BYTES: u64 = 2 * MARK_BYTES;

/// Where a stretch of the volume is to be read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Home,
    /// From this piece; the stretch begins `skip` sectors into it.
    Piece(Piece, u8),
    Marked(RangeKind),
}

/// A stretch of the volume with one source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) sectors: Range<u64>,
    pub(crate) source: Source,
}

/// Live sectors, by slot of the ring and in all.
struct Live {
    ring: RingGeometry,
    slots: Vec<u32>,
    sectors: u64,
}

impl Live {
    fn died(&mut self, addr: Addr, sectors: u32) {
        self.slots[self.ring.slot_of(addr) as usize] -= sectors;
        self.sectors -= u64::from(sectors);
    }

    fn born(&mut self, addr: Addr, sectors: u32) {
        self.slots[self.ring.slot_of(addr) as usize] += sectors;
        self.sectors += u64::from(sectors);
    }

    /// Takes away the sectors in `dead` (bits of the line); says whether any are left.
    fn cut(&mut self, piece: &mut Piece, dead: u8) -> bool {
        self.died(piece.addr, (piece.live & dead).count_ones());
        piece.live &= !dead;
        piece.live != 0
    }
}

/// The map.
pub(crate) struct Map {
    lines: LineTable,
    ranges: RangeMap,
    live: Live,
    absorbed_sectors: u64,
}

impl Map {
    pub(crate) fn new(ring: RingGeometry) -> Map {
        Map {
            lines: LineTable::new(),
            ranges: RangeMap::default(),
            live: Live {
                ring,
                slots: vec![0; ring.segment_count as usize],
                sectors: 0,
            },
            absorbed_sectors: 0,
        }
    }

    /// A map that a recovery fills, until [`Map::recovered`].
    pub(crate) fn to_recover(ring: RingGeometry) -> Map {
        let mut map = Map::new(ring);
        map.lines.expect_many();
        map
    }

    /// The ring the pieces lie in.
    pub(crate) fn ring(&self) -> RingGeometry {
        self.live.ring
    }

    /// Sectors whose newest data is not home.
    pub(crate) fn live_sectors(&self) -> u64 {
        self.live.sectors
    }

    /// Sectors that were overwritten before they were destaged.
    pub(crate) fn absorbed_sectors(&self) -> u64 {
        self.absorbed_sectors
    }

    /// Recovery is over. Counts from here on: what it replayed was absorbed in another life.
    pub(crate) fn recovered(&mut self) {
        self.absorbed_sectors = 0;
        self.lines.settle();
    }

    /// These lines will be wanted at once.
    pub(crate) fn look_ahead(&self, lines: impl Iterator<Item = Line>) {
        self.lines.look_ahead(lines);
    }

    /// Sectors of a segment that are still the newest.
    pub(crate) fn live_in(&self, segment: SegmentSeq) -> u32 {
        self.live.slots[self.ring().slot(segment) as usize]
    }

    /// True if every sector is at home.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.len() == 0 && self.ranges.is_empty()
    }

    /// Bytes of memory the map takes.
    pub(crate) fn bytes(&self) -> u64 {
        let live = self.live.slots.capacity() * size_of::<u32>();
        self.lines.bytes() + self.ranges.bytes() + live as u64
    }

    /// Bytes of memory that count against what the map is allowed: for its pieces, and for marks that
    /// can go home. What is lost cannot, so nobody could wait for it to.
    pub(crate) fn charged(&self) -> u64 {
        let marks = self.ranges.len() - self.ranges.lost();
        self.lines.len() as u64 * PIECE_BYTES + marks as u64 * MARK_BYTES
    }

    /// The most that so many more pieces and marks can add to [`Map::charged`].
    pub(crate) fn charge_of(entries: u64) -> u64 {
        entries * ENTRY_BYTES
    }

    /// The marked ranges.
    pub(crate) fn ranges(&self) -> &RangeMap {
        &self.ranges
    }

    /// Puts a piece of data in, on top of everything.
    pub(crate) fn insert(&mut self, piece: Piece) {
        let spot = self.lines.find(piece.line);
        self.insert_at(spot, piece);
    }

    /// Puts in a piece of data, on top of everything, at the place that `place` chooses. It is told where
    /// the piece with exactly this extent lies, if that is all live: then it may choose this.
    pub(crate) fn write(
        &mut self,
        sector: Sector,
        sectors: u8,
        crc: u32,
        place: impl FnOnce(Option<Addr>) -> Addr,
    ) {
        let (start, live) = (sector.in_line(), mask(sector.in_line(), sectors));
        let same =
            |piece: &Piece| (piece.start, piece.sectors, piece.live) == (start, sectors, live);
        let spot = self.lines.find(sector.line());
        let exact = self.lines.at(&spot).find(same).map(|piece| piece.addr);
        self.insert_at(spot, Piece::new(sector, sectors, place(exact), crc));
    }

    fn insert_at(&mut self, spot: Spot, piece: Piece) {
        let before = self.live.sectors;
        self.live.born(piece.addr, piece.sectors.into());
        let cut = |old: &mut Piece| self.live.cut(old, piece.live);
        self.lines.put(spot, piece, cut);
        self.absorbed_sectors += before + u64::from(piece.sectors) - self.live.sectors;
    }

    /// Puts in a copy, made elsewhere in the log, of what is the newest data already: nothing is
    /// overwritten by it.
    pub(crate) fn insert_copy(&mut self, piece: Piece) {
        let absorbed = self.absorbed_sectors;
        self.insert(piece);
        self.absorbed_sectors = absorbed;
    }

    /// Marks a range, taking away the data in it. An empty mark only takes the data away, and the
    /// marks with it: then the range is home.
    pub(crate) fn mark(&mut self, range: Range<u64>, mark: Option<Mark>) {
        let before = self.live.sectors;
        let is_long = self.is_long(&range);
        let mut bury = |piece: &mut Piece| self.live.cut(piece, within(piece.line, &range));
        if is_long {
            self.lines.retain_all(bury);
        } else {
            for line in lines(&range) {
                self.lines.retain(Line(line), &mut bury);
            }
        }
        self.absorbed_sectors += before - self.live.sectors;
        match mark {
            Some(mark) => self.ranges.insert(range, mark),
            None => self.ranges.remove(range),
        }
    }

    /// True if there are fewer pieces than lines in the range: then it is quicker to look at them all.
    fn is_long(&self, range: &Range<u64>) -> bool {
        let lines = lines(range);
        lines.end - lines.start > self.lines.len() as u64
    }

    /// The pieces of all lines of a range, in no order.
    fn pieces_in(&self, range: &Range<u64>) -> impl Iterator<Item = Piece> {
        let lines = lines(range);
        let (listed, searched) = match self.is_long(range) {
            true => (0..0, Some(lines)),
            false => (lines, None),
        };
        let listed = listed.flat_map(|line| self.pieces(Line(line)));
        let searched = searched.into_iter().flat_map(|lines| {
            let all = self.lines.iter();
            all.filter(move |piece| lines.contains(&piece.line.0))
        });
        listed.chain(searched)
    }

    /// The part of a range, from its start on, that can be marked without a pause that others
    /// notice.
    pub(crate) fn at_once(&self, range: &Range<u64>) -> Range<u64> {
        if self.lines.len() as u64 <= LINES_AT_ONCE {
            return range.clone();
        }
        range.start..range.end.min(range.start + LINES_AT_ONCE * LINE_SECTORS)
    }

    /// The parts of a range that have no data on top, in order.
    pub(crate) fn bare(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut data: Vec<Range<u64>> = self.pieces_in(&range).flat_map(Piece::live_runs).collect();
        data.sort_unstable_by_key(|run| run.start);
        let (mut bare, mut at) = (Vec::new(), range.start);
        for run in data {
            let end = run.start.min(range.end);
            if at < end {
                bare.push(at..end);
            }
            at = at.max(run.end);
        }
        if at < range.end {
            bare.push(at..range.end);
        }
        bare
    }

    /// The pieces of a line.
    pub(crate) fn pieces(&self, line: Line) -> impl Iterator<Item = Piece> {
        self.lines.get(line)
    }

    /// The piece at this place, if any of it is live.
    pub(crate) fn piece_at(&self, line: Line, addr: Addr) -> Option<Piece> {
        self.pieces(line).find(|piece| piece.addr == addr)
    }

    /// Every piece, in the table's order.
    pub(crate) fn all_pieces(&self) -> impl Iterator<Item = Piece> {
        self.lines.iter()
    }

    /// Takes the piece at this place out: it is home and the tail has passed it.
    pub(crate) fn forget(&mut self, line: Line, addr: Addr) {
        self.lines.retain(line, |piece| {
            piece.addr != addr || self.live.cut(piece, 0xff)
        });
    }

    /// Takes out the marks of records before `record`: they are home and the tail has passed them.
    pub(crate) fn forget_marks_before(&mut self, record: RecordSeq) {
        self.ranges.forget_before(record);
    }

    /// Takes a mark out of the parts of a range where it still stands: it is true at home.
    pub(crate) fn forget_mark(&mut self, range: Range<u64>, mark: Mark) {
        let parts: Vec<_> = self.ranges.overlapping(range).collect();
        for (part, _) in parts.into_iter().filter(|(_, now)| *now == mark) {
            self.ranges.remove(part);
        }
    }

    /// How many pieces of data there are.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// True if any sector of the range is not simply at home.
    pub(crate) fn overlaps(&self, range: Range<u64>) -> bool {
        if self.ranges.overlapping(range.clone()).next().is_some() {
            return true;
        }
        self.pieces_in(&range).next().is_some()
    }

    /// Where to read a range from: stretches in order that cover it.
    pub(crate) fn lookup(&self, range: Range<u64>) -> Vec<Extent> {
        let mut out = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let line = Line(at / LINE_SECTORS);
            let end = (line.first_sector().0 + LINE_SECTORS).min(range.end);
            let first = self.pieces(line).next();
            match first {
                None => self.beneath(at..end, &mut out),
                Some(piece) if piece.live == 0xff => {
                    let skip = (at - line.first_sector().0) as u8;
                    out.push(Extent {
                        sectors: at..end,
                        source: Source::Piece(piece, skip),
                    });
                }
                Some(_) => self.lookup_pieces(line, at..end, &mut out),
            }
            at = end;
        }
        out
    }

    fn lookup_pieces(&self, line: Line, range: Range<u64>, out: &mut Vec<Extent>) {
        let base = line.first_sector().0;
        let mut parts: Vec<(Range<u64>, Piece)> = self
            .pieces(line)
            .flat_map(|piece| piece.live_runs().map(move |run| (run, piece)))
            .map(|(run, piece)| (run.start.max(range.start)..run.end.min(range.end), piece))
            .filter(|(run, _)| run.start < run.end)
            .collect();
        parts.sort_unstable_by_key(|(run, _)| run.start);
        let mut at = range.start;
        for (run, piece) in parts {
            if at < run.start {
                self.beneath(at..run.start, out);
            }
            at = run.end;
            let skip = (run.start - base) as u8 - piece.start;
            out.push(Extent {
                sectors: run,
                source: Source::Piece(piece, skip),
            });
        }
        if at < range.end {
            self.beneath(at..range.end, out);
        }
    }

    /// A stretch without data: marked or home. Stretches of one source are joined.
    fn beneath(&self, range: Range<u64>, out: &mut Vec<Extent>) {
        let mut put = |sectors: Range<u64>, source: Source| match out.last_mut() {
            Some(last) if last.source == source && last.sectors.end == sectors.start => {
                last.sectors.end = sectors.end;
            }
            _ => out.push(Extent { sectors, source }),
        };
        let mut at = range.start;
        if !self.ranges.is_empty() {
            for (part, mark) in self.ranges.overlapping(range.clone()) {
                if at < part.start {
                    put(at..part.start, Source::Home);
                }
                at = part.end;
                let source = match mark.kind {
                    // Nothing is promised of it, so home has the answer now as later. Zeroes until
                    // the discard is home, and then what is left there, would be old data come back.
                    RangeKind::Discard => Source::Home,
                    kind => Source::Marked(kind),
                };
                put(part, source);
            }
        }
        if at < range.end {
            put(at..range.end, Source::Home);
        }
    }
}

/// The lines that a range of sectors meets.
fn lines(range: &Range<u64>) -> Range<u64> {
    range.start / LINE_SECTORS..range.end.div_ceil(LINE_SECTORS)
}

/// The sectors of a line that lie in the range.
fn within(line: Line, range: &Range<u64>) -> u8 {
    let base = line.first_sector().0;
    let at = |sector: u64| (sector.clamp(base, base + LINE_SECTORS) - base) as u8;
    mask(at(range.start), at(range.end) - at(range.start))
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
