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

use forebay_log::{Addr, Layout, RangeKind};
use forebay_units::{LINE_SECTORS, Line, RecordSeq, Sector, SegmentSeq};

use crate::ranges::{Mark, RangeMap};
use crate::table::{LineTable, Value};

/// Lines that are looked at in one go when a range is marked: a few milliseconds' worth.
const LINES_AT_ONCE: u64 = 16 << 10;

/// A piece of data as it was written: up to 8 sectors of one line, at one place, under one checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) line: Line,
    /// First sector in the line.
    pub(crate) start: u8,
    /// Sectors as written.
    pub(crate) sectors: u8,
    /// The line's sectors for which this is the newest data, one bit each.
    pub(crate) live: u8,
    pub(crate) addr: Addr,
    pub(crate) crc: u32,
}

impl Piece {
    pub(crate) fn new(sector: Sector, sectors: u8, addr: Addr, crc: u32) -> Piece {
        let start = sector.in_line();
        Piece {
            line: sector.line(),
            start,
            sectors,
            live: mask(start, sectors),
            addr,
            crc,
        }
    }

    fn of_value(line: Line, addr: Addr, crc: u32) -> Piece {
        Piece {
            line,
            start: 0,
            sectors: LINE_SECTORS as u8,
            live: 0xff,
            addr,
            crc,
        }
    }

    /// The live sectors, as ranges of the volume in order.
    pub(crate) fn live_runs(self) -> impl Iterator<Item = Range<u64>> {
        let base = self.line.first_sector().0;
        let mut at = 0u64;
        std::iter::from_fn(move || {
            let rest = u16::from(self.live) >> at;
            if at >= 8 || rest == 0 {
                return None;
            }
            let start = at + u64::from(rest.trailing_zeros());
            let run = u64::from((u16::from(self.live) >> start).trailing_ones());
            at = start + run;
            Some(base + start..base + at)
        })
    }

    /// The first sector of the volume it was written to.
    pub(crate) fn sector(&self) -> Sector {
        self.line.first_sector().plus(self.start.into())
    }
}

fn mask(start: u8, sectors: u8) -> u8 {
    (((1u16 << sectors) - 1) << start) as u8
}

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

/// The map.
pub(crate) struct Map {
    layout: Layout,
    lines: LineTable,
    /// Lines in pieces, by the number the table has for them.
    pieces: Vec<Vec<Piece>>,
    pieces_free: Vec<u32>,
    ranges: RangeMap,
    live: Vec<u32>,
    live_sectors: u64,
    absorbed_sectors: u64,
}

impl Map {
    pub(crate) fn new(layout: Layout) -> Map {
        Map {
            layout,
            lines: LineTable::new(),
            pieces: Vec::new(),
            pieces_free: Vec::new(),
            ranges: RangeMap::default(),
            live: vec![0; layout.segment_count as usize],
            live_sectors: 0,
            absorbed_sectors: 0,
        }
    }

    /// The ring the pieces lie in.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Sectors whose newest data is not home.
    pub(crate) fn live_sectors(&self) -> u64 {
        self.live_sectors
    }

    /// Sectors that were overwritten before they were destaged.
    pub(crate) fn absorbed_sectors(&self) -> u64 {
        self.absorbed_sectors
    }

    /// Counts from here on: what recovery replays was absorbed in another life.
    pub(crate) fn count_from_here(&mut self) {
        self.absorbed_sectors = 0;
    }

    /// Sectors of a segment that are still the newest.
    pub(crate) fn live_in(&self, segment: SegmentSeq) -> u32 {
        self.live[self.layout.slot(segment) as usize]
    }

    /// True if every sector is at home.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.len() == 0 && self.ranges.is_empty()
    }

    /// Bytes of memory the map takes.
    pub(crate) fn bytes(&self) -> u64 {
        let lists: usize = self.pieces.iter().map(Vec::capacity).sum();
        let spine = self.pieces.capacity() * size_of::<Vec<Piece>>();
        // A B-tree's entries with what its nodes leave empty.
        let ranges = self.ranges.len() * 64;
        self.lines.bytes()
            + (lists * size_of::<Piece>() + spine + ranges + self.live.len() * 4) as u64
    }

    /// The marked ranges.
    pub(crate) fn ranges(&self) -> &RangeMap {
        &self.ranges
    }

    fn died(&mut self, addr: Addr, sectors: u32) {
        self.live[self.layout.slot_of(addr) as usize] -= sectors;
        self.live_sectors -= u64::from(sectors);
    }

    fn born(&mut self, addr: Addr, sectors: u32) {
        self.live[self.layout.slot_of(addr) as usize] += sectors;
        self.live_sectors += u64::from(sectors);
    }

    /// Puts a piece of data in, on top of everything.
    pub(crate) fn insert(&mut self, piece: Piece) {
        let before = self.live_sectors;
        self.born(piece.addr, piece.sectors.into());
        if piece.live == 0xff {
            let Piece {
                line, addr, crc, ..
            } = piece;
            if let Some(old) = self.lines.insert(line, Value::Whole { addr, crc }) {
                self.bury(old);
            }
        } else {
            let mut list = self.cut(piece.line, piece.live);
            list.push(piece);
            self.store(piece.line, list);
        }
        self.absorbed_sectors += before + u64::from(piece.sectors) - self.live_sectors;
    }

    /// Accounts for a value that is no longer in the table.
    fn bury(&mut self, old: Value) {
        match old {
            Value::Whole { addr, .. } => self.died(addr, LINE_SECTORS as u32),
            Value::Pieces(n) => {
                for piece in std::mem::take(&mut self.pieces[n as usize]) {
                    self.died(piece.addr, piece.live.count_ones());
                }
                self.pieces_free.push(n);
            }
        }
    }

    /// Takes a line out of the table and gives its pieces without the sectors in `dead`.
    fn cut(&mut self, line: Line, dead: u8) -> Vec<Piece> {
        let mut list = match self.lines.remove(line) {
            None => return Vec::new(),
            Some(Value::Whole { addr, crc }) => vec![Piece::of_value(line, addr, crc)],
            Some(Value::Pieces(n)) => {
                self.pieces_free.push(n);
                std::mem::take(&mut self.pieces[n as usize])
            }
        };
        for piece in &mut list {
            let lost = (piece.live & dead).count_ones();
            piece.live &= !dead;
            self.died(piece.addr, lost);
        }
        list.retain(|piece| piece.live != 0);
        list
    }

    fn store(&mut self, line: Line, list: Vec<Piece>) {
        match list.as_slice() {
            [] => {}
            [one] if one.live == 0xff => {
                self.lines.insert(
                    line,
                    Value::Whole {
                        addr: one.addr,
                        crc: one.crc,
                    },
                );
            }
            _ => {
                let n = self.pieces_free.pop().unwrap_or(self.pieces.len() as u32);
                if n as usize == self.pieces.len() {
                    self.pieces.push(Vec::new());
                }
                self.pieces[n as usize] = list;
                self.lines.insert(line, Value::Pieces(n));
            }
        }
    }

    /// Marks a range, taking away the data in it. An empty mark only takes the data away, and the
    /// marks with it: then the range is home.
    pub(crate) fn mark(&mut self, range: Range<u64>, mark: Option<Mark>) {
        let before = self.live_sectors;
        for line in self.lines_that_may_meet(&range) {
            let base = line.first_sector().0;
            let from = range.start.saturating_sub(base) as u8;
            let to = (range.end - base).min(LINE_SECTORS) as u8;
            let rest = self.cut(line, mask(from, to - from));
            self.store(line, rest);
        }
        match mark {
            Some(mark) => self.ranges.insert(range, mark),
            None => self.ranges.remove(range),
        }
        self.absorbed_sectors += before - self.live_sectors;
    }

    /// The part of a range, from its start on, that can be marked without a pause that others
    /// notice.
    pub(crate) fn at_once(&self, range: &Range<u64>) -> Range<u64> {
        if self.lines.len() as u64 <= LINES_AT_ONCE {
            return range.clone();
        }
        range.start..range.end.min(range.start + LINES_AT_ONCE * LINE_SECTORS)
    }

    /// Lines of the range, without most of those that hold no data if the range is long.
    fn lines_that_may_meet(&self, range: &Range<u64>) -> Vec<Line> {
        let (first, last) = (range.start / LINE_SECTORS, range.end.div_ceil(LINE_SECTORS));
        if last - first <= self.lines.len() as u64 {
            return (first..last).map(Line).collect();
        }
        let named = self.lines.iter().map(|(line, _)| line);
        named
            .filter(|line| (first..last).contains(&line.0))
            .collect()
    }

    /// The parts of a range that have no data on top, in order.
    pub(crate) fn bare(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let lines = self.lines_that_may_meet(&range);
        let pieces = lines.into_iter().flat_map(|line| self.pieces(line));
        let mut data: Vec<Range<u64>> = pieces.flat_map(Piece::live_runs).collect();
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

    /// The piece of data with exactly this extent, if it is all live.
    pub(crate) fn exact(&self, sector: Sector, sectors: u8) -> Option<Addr> {
        match self.lines.get(sector.line())? {
            Value::Whole { addr, .. } => (u64::from(sectors) == LINE_SECTORS).then_some(addr),
            Value::Pieces(n) => {
                let live = mask(sector.in_line(), sectors);
                let same = |piece: &&Piece| {
                    piece.start == sector.in_line()
                        && piece.sectors == sectors
                        && piece.live == live
                };
                self.pieces[n as usize]
                    .iter()
                    .find(same)
                    .map(|piece| piece.addr)
            }
        }
    }

    /// The pieces of a line.
    pub(crate) fn pieces(&self, line: Line) -> impl Iterator<Item = Piece> {
        let value = self.lines.get(line);
        let whole = match value {
            Some(Value::Whole { addr, crc }) => Some(Piece::of_value(line, addr, crc)),
            _ => None,
        };
        let list = match value {
            Some(Value::Pieces(n)) => self.pieces[n as usize].as_slice(),
            _ => &[],
        };
        whole.into_iter().chain(list.iter().copied())
    }

    /// The piece at this place, if any of it is live.
    pub(crate) fn piece_at(&self, line: Line, addr: Addr) -> Option<Piece> {
        self.pieces(line).find(|piece| piece.addr == addr)
    }

    /// Every piece, in the table's order.
    pub(crate) fn all_pieces(&self) -> impl Iterator<Item = Piece> {
        self.lines.iter().flat_map(|(line, _)| self.pieces(line))
    }

    /// Takes the piece at this place out: it is home and the tail has passed it.
    pub(crate) fn forget(&mut self, line: Line, addr: Addr) {
        let Some(piece) = self.piece_at(line, addr) else {
            return;
        };
        let rest = self.cut(line, piece.live);
        self.store(line, rest);
    }

    /// Takes out the marks of records before `record`: they are home and the tail has passed them.
    pub(crate) fn forget_marks_before(&mut self, record: RecordSeq) {
        self.ranges.forget_before(record);
    }

    /// True if any sector of the range is not simply at home.
    pub(crate) fn overlaps(&self, range: Range<u64>) -> bool {
        if self.ranges.overlapping(range.clone()).next().is_some() {
            return true;
        }
        let lines = range.start / LINE_SECTORS..range.end.div_ceil(LINE_SECTORS);
        if lines.end - lines.start > self.lines.len() as u64 {
            return self.lines.iter().any(|(line, _)| lines.contains(&line.0));
        }
        lines.map(Line).any(|line| self.lines.get(line).is_some())
    }

    /// Where to read a range from: stretches in order that cover it.
    pub(crate) fn lookup(&self, range: Range<u64>) -> Vec<Extent> {
        let mut out = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let line = Line(at / LINE_SECTORS);
            let end = (line.first_sector().0 + LINE_SECTORS).min(range.end);
            match self.lines.get(line) {
                None => self.beneath(at..end, &mut out),
                Some(Value::Whole { addr, crc }) => {
                    let piece = Piece::of_value(line, addr, crc);
                    let skip = (at - line.first_sector().0) as u8;
                    out.push(Extent {
                        sectors: at..end,
                        source: Source::Piece(piece, skip),
                    });
                }
                Some(Value::Pieces(_)) => self.lookup_pieces(line, at..end, &mut out),
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

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
