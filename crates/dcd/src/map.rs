//! The map: location of the newest data of every sector that is not simply on the data device.
//!
//! A sector has three possible sources, newest first: fragments of data (in the log or its buffer), marked ranges
//! (zeroed, discarded or lost), and the data device. Data is put on top of marks, and a mark removes the data beneath
//! it. So the data of a sector is always newer than any mark of this sector.
//!
//! Invariants:
//! - The live sectors of a fragment are those for which it holds the newest data; `live[slot]` counts them by segment.
//! - An entry is removed only when a newer entry replaces it, or when its data is on the data device and the tail has
//!   passed it. So a sector that is not in the map has no copy between tail and head either.

use std::ops::Range;

use forebay_ring_log::{LogAddr, RangeKind, RingGeometry};
use forebay_units::{BlockNumber, LINE_SECTORS, RecordSeq, Sector, SegmentSeq};

pub(crate) use crate::piece::LogFragment;
use crate::piece::mask;
use crate::ranges::{RangeMap, RangeState};
use crate::table::{FragmentTable, TablePosition};

/// Blocks examined without a pause when a range is marked: a few milliseconds of work.
const LINES_AT_ONCE: u64 = 16 << 10;

/// Memory that a fragment and a mark are charged for in the map, in bytes. This is a little more than the size of their
/// entries, to cover the space that tables leave empty while they grow. Space that tables keep after most entries have
/// left is not charged, so that each entry that leaves makes space for one new entry.
const PIECE_BYTES: u64 = 20;
const MARK_BYTES: u64 = 32;
/// Upper bound of the charge that one more fragment or mark can add: a mark inside another mark leaves three.
const ENTRY_BYTES: u64 = 2 * MARK_BYTES;

/// Source to read an extent of the volume from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SectorSource {
    Home,
    /// A fragment of data. The extent begins `skip` sectors into the fragment.
    Piece(LogFragment, u8),
    Marked(RangeKind),
}

/// An extent of the volume with a single source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SourceExtent {
    pub(crate) sectors: Range<u64>,
    pub(crate) source: SectorSource,
}

/// Live sectors, by slot of the ring and in total.
struct LiveSectors {
    ring: RingGeometry,
    slots: Vec<u32>,
    sectors: u64,
}

impl LiveSectors {
    fn died(&mut self, addr: LogAddr, sectors: u32) {
        self.slots[self.ring.slot_of(addr) as usize] -= sectors;
        self.sectors -= u64::from(sectors);
    }

    fn born(&mut self, addr: LogAddr, sectors: u32) {
        self.slots[self.ring.slot_of(addr) as usize] += sectors;
        self.sectors += u64::from(sectors);
    }

    /// Removes the sectors in `dead` (bits of the block) from a fragment. Returns true if any live sectors are left.
    fn cut(&mut self, piece: &mut LogFragment, dead: u8) -> bool {
        self.died(piece.addr, (piece.live & dead).count_ones());
        piece.live &= !dead;
        piece.live != 0
    }
}

/// The map of a volume.
pub(crate) struct CacheMap {
    lines: FragmentTable,
    ranges: RangeMap,
    live: LiveSectors,
    absorbed_sectors: u64,
}

impl CacheMap {
    pub(crate) fn new(ring: RingGeometry) -> CacheMap {
        CacheMap {
            lines: FragmentTable::new(),
            ranges: RangeMap::default(),
            live: LiveSectors {
                ring,
                slots: vec![0; ring.segment_count as usize],
                sectors: 0,
            },
            absorbed_sectors: 0,
        }
    }

    /// Creates a map that recovery fills, until [`CacheMap::recovered`].
    pub(crate) fn to_recover(ring: RingGeometry) -> CacheMap {
        let mut map = CacheMap::new(ring);
        map.lines.expect_many();
        map
    }

    /// Returns the ring that holds the fragments.
    pub(crate) fn ring(&self) -> RingGeometry {
        self.live.ring
    }

    /// Returns the number of sectors whose newest data is not on the data device.
    pub(crate) fn live_sectors(&self) -> u64 {
        self.live.sectors
    }

    /// Returns the number of sectors that were overwritten before they were destaged.
    pub(crate) fn absorbed_sectors(&self) -> u64 {
        self.absorbed_sectors
    }

    /// Ends recovery. Resets the counter of absorbed sectors, since the replayed overwrites happened before this
    /// attach.
    pub(crate) fn recovered(&mut self) {
        self.absorbed_sectors = 0;
        self.lines.settle();
    }

    /// Prefetches the table entries of these blocks, which will be used at once.
    pub(crate) fn look_ahead(&self, lines: impl Iterator<Item = BlockNumber>) {
        self.lines.look_ahead(lines);
    }

    /// Returns the number of live sectors in a segment.
    pub(crate) fn live_in(&self, segment: SegmentSeq) -> u32 {
        self.live.slots[self.ring().slot(segment) as usize]
    }

    /// Returns true if every sector is on the data device.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.len() == 0 && self.ranges.is_empty()
    }

    /// Returns the memory of the map, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let live = self.live.slots.capacity() * size_of::<u32>();
        self.lines.bytes() + self.ranges.bytes() + live as u64
    }

    /// Returns the bytes charged against the map's memory limit: for fragments, and for marks that can be carried out.
    /// Lost ranges are not charged, since destaging cannot remove them and a writer would wait forever.
    pub(crate) fn charged(&self) -> u64 {
        let marks = self.ranges.len() - self.ranges.lost();
        self.lines.len() as u64 * PIECE_BYTES + marks as u64 * MARK_BYTES
    }

    /// Returns the most that this many additional fragments and marks can add to [`CacheMap::charged`].
    pub(crate) fn charge_of(entries: u64) -> u64 {
        entries * ENTRY_BYTES
    }

    /// Returns the marked ranges.
    pub(crate) fn ranges(&self) -> &RangeMap {
        &self.ranges
    }

    /// Inserts a fragment of data on top of everything.
    pub(crate) fn insert(&mut self, piece: LogFragment) {
        let spot = self.lines.find(piece.line);
        self.insert_at(spot, piece);
    }

    /// Inserts a fragment of data on top of everything, at the address that `place` returns. `place` receives the
    /// address of a completely live fragment with exactly the same extent, if the block has one, and may return this
    /// address.
    pub(crate) fn write(
        &mut self,
        sector: Sector,
        sectors: u8,
        crc: u32,
        place: impl FnOnce(Option<LogAddr>) -> LogAddr,
    ) {
        let (start, live) = (sector.in_line(), mask(sector.in_line(), sectors));
        let same = |piece: &LogFragment| {
            (piece.start, piece.sectors, piece.live) == (start, sectors, live)
        };
        let spot = self.lines.find(sector.line());
        let exact = self.lines.at(&spot).find(same).map(|piece| piece.addr);
        self.insert_at(spot, LogFragment::new(sector, sectors, place(exact), crc));
    }

    fn insert_at(&mut self, spot: TablePosition, piece: LogFragment) {
        let before = self.live.sectors;
        self.live.born(piece.addr, piece.sectors.into());
        let cut = |old: &mut LogFragment| self.live.cut(old, piece.live);
        self.lines.put(spot, piece, cut);
        self.absorbed_sectors += before + u64::from(piece.sectors) - self.live.sectors;
    }

    /// Inserts a copy of the newest data, which was appended elsewhere in the log. The copy does not count as an
    /// overwrite.
    pub(crate) fn insert_copy(&mut self, piece: LogFragment) {
        let absorbed = self.absorbed_sectors;
        self.insert(piece);
        self.absorbed_sectors = absorbed;
    }

    /// Marks a range and removes the data in it. With `None` as the mark, only removes the data and the marks, so that
    /// the range is on the data device.
    pub(crate) fn mark(&mut self, range: Range<u64>, mark: Option<RangeState>) {
        let before = self.live.sectors;
        let is_long = self.is_long(&range);
        let mut bury = |piece: &mut LogFragment| self.live.cut(piece, within(piece.line, &range));
        if is_long {
            self.lines.retain_all(bury);
        } else {
            for line in lines(&range) {
                self.lines.retain(BlockNumber(line), &mut bury);
            }
        }
        self.absorbed_sectors += before - self.live.sectors;
        match mark {
            Some(mark) => self.ranges.insert(range, mark),
            None => self.ranges.remove(range),
        }
    }

    /// Returns true if the map has fewer fragments than the range has blocks. Then a search through all fragments is
    /// faster.
    fn is_long(&self, range: &Range<u64>) -> bool {
        let lines = lines(range);
        lines.end - lines.start > self.lines.len() as u64
    }

    /// Returns the fragments of all blocks of a range, in no particular order.
    fn pieces_in(&self, range: &Range<u64>) -> impl Iterator<Item = LogFragment> {
        let lines = lines(range);
        let (listed, searched) = if self.is_long(range) {
            (0..0, Some(lines))
        } else {
            (lines, None)
        };
        let listed = listed.flat_map(|line| self.pieces(BlockNumber(line)));
        let searched = searched.into_iter().flat_map(|lines| {
            let all = self.lines.iter();
            all.filter(move |piece| lines.contains(&piece.line.0))
        });
        listed.chain(searched)
    }

    /// Returns the first part of a range that can be marked without a pause noticeable to others.
    pub(crate) fn at_once(&self, range: &Range<u64>) -> Range<u64> {
        if self.lines.len() as u64 <= LINES_AT_ONCE {
            return range.clone();
        }
        range.start..range.end.min(range.start + LINES_AT_ONCE * LINE_SECTORS)
    }

    /// Returns the parts of a range without data on top, in order.
    pub(crate) fn bare(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut data: Vec<Range<u64>> = self
            .pieces_in(&range)
            .flat_map(LogFragment::live_runs)
            .collect();
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

    /// Returns the fragments of a block.
    pub(crate) fn pieces(&self, line: BlockNumber) -> impl Iterator<Item = LogFragment> {
        self.lines.get(line)
    }

    /// Returns the fragment at this address, if any of its sectors is live.
    pub(crate) fn piece_at(&self, line: BlockNumber, addr: LogAddr) -> Option<LogFragment> {
        self.pieces(line).find(|piece| piece.addr == addr)
    }

    /// Returns every fragment, in the table's order.
    pub(crate) fn all_pieces(&self) -> impl Iterator<Item = LogFragment> {
        self.lines.iter()
    }

    /// Removes the fragment at this address, whose data is on the data device. The tail must have passed the fragment.
    pub(crate) fn forget(&mut self, line: BlockNumber, addr: LogAddr) {
        self.lines.retain(line, |piece| {
            piece.addr != addr || self.live.cut(piece, 0xff)
        });
    }

    /// Removes the marks of records before `record`, which were carried out. The tail must have passed them.
    pub(crate) fn forget_marks_before(&mut self, record: RecordSeq) {
        self.ranges.forget_before(record);
    }

    /// Removes a mark, which was carried out, from the parts of a range where it is still the newest mark.
    pub(crate) fn forget_mark(&mut self, range: Range<u64>, mark: RangeState) {
        let parts: Vec<_> = self.ranges.overlapping(range).collect();
        for (part, _) in parts.into_iter().filter(|(_, now)| *now == mark) {
            self.ranges.remove(part);
        }
    }

    /// Returns the number of fragments of data.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns true if any sector of the range has an entry in the map.
    pub(crate) fn overlaps(&self, range: Range<u64>) -> bool {
        if self.ranges.overlapping(range.clone()).next().is_some() {
            return true;
        }
        self.pieces_in(&range).next().is_some()
    }

    /// Returns the sources of a range: extents in order that cover it.
    pub(crate) fn lookup(&self, range: Range<u64>) -> Vec<SourceExtent> {
        let mut out = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let line = BlockNumber(at / LINE_SECTORS);
            let end = (line.first_sector().0 + LINE_SECTORS).min(range.end);
            let first = self.pieces(line).next();
            match first {
                None => self.beneath(at..end, &mut out),
                Some(piece) if piece.live == 0xff => {
                    let skip = (at - line.first_sector().0) as u8;
                    out.push(SourceExtent {
                        sectors: at..end,
                        source: SectorSource::Piece(piece, skip),
                    });
                }
                Some(_) => self.lookup_pieces(line, at..end, &mut out),
            }
            at = end;
        }
        out
    }

    fn lookup_pieces(&self, line: BlockNumber, range: Range<u64>, out: &mut Vec<SourceExtent>) {
        let base = line.first_sector().0;
        let mut parts: Vec<(Range<u64>, LogFragment)> = self
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
            out.push(SourceExtent {
                sectors: run,
                source: SectorSource::Piece(piece, skip),
            });
        }
        if at < range.end {
            self.beneath(at..range.end, out);
        }
    }

    /// Appends the sources of an extent without data: marked ranges or the data device. Merges adjacent extents with
    /// the same source.
    fn beneath(&self, range: Range<u64>, out: &mut Vec<SourceExtent>) {
        let mut put = |sectors: Range<u64>, source: SectorSource| match out.last_mut() {
            Some(last) if last.source == source && last.sectors.end == sectors.start => {
                last.sectors.end = sectors.end;
            }
            _ => out.push(SourceExtent { sectors, source }),
        };
        let mut at = range.start;
        if !self.ranges.is_empty() {
            for (part, mark) in self.ranges.overlapping(range.clone()) {
                if at < part.start {
                    put(at..part.start, SectorSource::Home);
                }
                at = part.end;
                let source = match mark.kind {
                    // Content after a discard is undefined, so the data device provides it now as later. If such a
                    // sector read as zeroes until the discard is carried out, and as the remaining content afterwards,
                    // old data would reappear.
                    RangeKind::Discard => SectorSource::Home,
                    kind => SectorSource::Marked(kind),
                };
                put(part, source);
            }
        }
        if at < range.end {
            put(at..range.end, SectorSource::Home);
        }
    }
}

/// Returns the blocks that a range of sectors touches.
fn lines(range: &Range<u64>) -> Range<u64> {
    range.start / LINE_SECTORS..range.end.div_ceil(LINE_SECTORS)
}

/// Returns the sectors of a block that lie in the range, one bit each.
fn within(line: BlockNumber, range: &Range<u64>) -> u8 {
    let base = line.first_sector().0;
    let at = |sector: u64| (sector.clamp(base, base + LINE_SECTORS) - base) as u8;
    mask(at(range.start), at(range.end) - at(range.start))
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
