//! Blocks that wait for a write in place (`home.rs`), as plain state.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_device::Buf;
use forebay_extent_map::{ExtentCheck, ExtentMap, LogPlace, MapExtent};
use forebay_rt::Instant;
use forebay_segment_log::RecordComposer as _;
use forebay_units::{BlockNumber, LINE_BYTES, LINE_SECTORS, Sector};

use crate::options::SpaceSettings;
use crate::prepared::mapped;
use crate::streams::SegmentStreams;

/// Blocks that wait for a write in place take at most this fraction of the device, since their copies take free space
/// in the log. `LEAST_BYTES` is allowed in any case.
const MEDIUM_PART: u64 = 512;
const LEAST_BYTES: u64 = 256 << 10;
/// Maximum time that a block waits, even if only few blocks wait.
const DELAY: Duration = Duration::from_secs(1);

/// A block of 4 KiB that waits for its write in place.
#[derive(Clone)]
pub(crate) struct InPlaceBlock {
    pub(crate) home: InPlaceTarget,
    /// Place of its copy in the log.
    pub(crate) copy: LogPlace,
    pub(crate) crc: u32,
    pub(crate) data: Buf,
}

/// Blocks that wait for a write in place, or are being written.
pub(crate) struct InPlaceWrites {
    /// Maximum bytes of these blocks.
    bytes_max: u64,
    waiting: BTreeMap<BlockNumber, InPlaceBlock>,
    /// Number of blocks that are being written.
    under_way: usize,
    /// Time at which the first waiting block was added, and whether the task that writes them was not yet notified.
    since: Option<Instant>,
    news: bool,
}

impl InPlaceWrites {
    /// Creates an empty set for a device of `medium` bytes.
    pub(crate) fn new(options: &SpaceSettings, medium: u64) -> InPlaceWrites {
        InPlaceWrites {
            bytes_max: options
                .home_bytes
                .min((medium / MEDIUM_PART).max(LEAST_BYTES)),
            waiting: BTreeMap::new(),
            under_way: 0,
            since: None,
            news: false,
        }
    }

    /// Returns true if so many blocks wait or are being written that writers must wait.
    pub(crate) fn is_full(&self) -> bool {
        (self.waiting.len() + self.under_way) as u64 * LINE_BYTES > self.bytes_max
    }

    /// Returns true if enough blocks wait to be written at once.
    fn is_much(&self) -> bool {
        self.waiting.len() as u64 * LINE_BYTES >= (self.bytes_max / 2).max(1)
    }

    /// Returns true if the task that writes blocks in place must be woken to look at [`InPlaceWrites::due`].
    pub(crate) fn wakes(&mut self) -> bool {
        std::mem::take(&mut self.news) || self.is_much()
    }

    /// Takes all waiting blocks. They count as under way from now on.
    pub(crate) fn take(&mut self) -> BTreeMap<BlockNumber, InPlaceBlock> {
        self.under_way = self.waiting.len();
        std::mem::take(&mut self.waiting)
    }

    /// Records that no block is under way any more.
    pub(crate) fn arrived(&mut self) {
        self.under_way = 0;
    }

    /// Returns the time at which the waiting blocks must be written in place. `None` if no block waits.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let since = self.since.filter(|_| !self.waiting.is_empty())?;
        Some(if self.is_much() {
            now
        } else {
            since.plus(DELAY)
        })
    }

    /// Removes the block of a sector, since newer data was written that must not be written in place.
    pub(crate) fn forget(&mut self, sector: Sector) {
        if !self.waiting.is_empty() {
            self.waiting.remove(&sector.line());
        }
    }

    /// Adds an appended block that must be written in place.
    pub(crate) fn add(
        &mut self,
        line: BlockNumber,
        home: InPlaceTarget,
        copy: (LogPlace, u32),
        data: Buf,
        now: Instant,
    ) {
        if self.waiting.is_empty() {
            self.since = Some(now);
            self.news = true;
        }
        let away = InPlaceBlock {
            home,
            copy: copy.0,
            crc: copy.1,
            data,
        };
        self.waiting.insert(line, away);
    }

    /// Returns the place for a write in place of a block. The block must lie as a whole in a segment on the device, or
    /// already wait for its write in place.
    pub(crate) fn of(
        &self,
        line: BlockNumber,
        map: &ExtentMap,
        streams: &SegmentStreams,
        block: u64,
    ) -> Option<InPlaceTarget> {
        let place = whole(map, line)?;
        let away = self.waiting.get(&line).filter(|away| away.copy == place);
        let known = away.map(|away| away.home);
        let home = known.unwrap_or(InPlaceTarget { place });
        let aligned = home.place.bytes().is_multiple_of(block) && LINE_BYTES >= block;
        (aligned && home.takes(streams)).then_some(home)
    }
}

/// A place for a write in place.
#[derive(Clone, Copy)]
pub(crate) struct InPlaceTarget {
    pub(crate) place: LogPlace,
}

impl InPlaceTarget {
    /// Returns true if the place may be overwritten now: its segment is full and on the device, and its number is not
    /// retired.
    pub(crate) fn takes(&self, streams: &SegmentStreams) -> bool {
        let segment = streams.layout.segment_of(self.place);
        streams.table.may_overwrite(segment).is_some()
            && streams.flight().segment(segment).is_none()
    }
}

/// Returns the place of a block, if all of it is mapped to consecutive places.
pub(crate) fn whole(map: &ExtentMap, line: BlockNumber) -> Option<LogPlace> {
    let first = line.first_sector();
    let extents = mapped(map, first, LINE_SECTORS);
    let place = extents
        .first()
        .filter(|extent| extent.sector == first.0)?
        .place;
    let mut next = first.0;
    for extent in &extents {
        if extent.sector != next || extent.place != place.plus(next - first.0) {
            return None;
        }
        next = extent.end();
    }
    (next == first.0 + LINE_SECTORS).then_some(place)
}

/// Returns the extent of a block that was written in place.
pub(crate) fn at_home(line: BlockNumber, place: LogPlace, crc: u32) -> MapExtent {
    MapExtent {
        sector: line.first_sector().0,
        sectors: LINE_SECTORS,
        place,
        check: ExtentCheck::Own(crc),
    }
}
