//! Loading and checking of the live data of a segment.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::Buf;
use forebay_placement::WriteClock;
use forebay_segment_log::RecordEntry as _;
use forebay_units::{LINE_SECTORS, SECTOR_BYTES, Sector, SegmentSeq};

use crate::checks::read_contents;
use crate::error::SpaceError;
use crate::format::{MetaKind, SpaceEntry, StreamNumber};
use crate::geometry::SegmentSlot;
use crate::prepared::mapped;
use crate::space::SpaceInner;
use crate::store::read_blocks;
use forebay_extent_map::LogPlace;
use forebay_extent_map::{ExtentCheck, MapExtent, PAGE_SECTORS};

/// A gap between two live fragments is read along with them if it is no longer than this, in bytes.
const GAP_BYTES: u64 = 128 << 10;

/// A live fragment of a segment, to be moved.
#[derive(Clone, Debug)]
pub(super) struct LiveFragment {
    pub(super) sector: Sector,
    pub(super) sectors: u64,
    /// Current place.
    pub(super) place: LogPlace,
    /// Time at which the client wrote the data.
    pub(super) born: WriteClock,
    /// The stream of the segment that contains the fragment.
    pub(super) stream: StreamNumber,
    /// Time at which its segment was closed.
    pub(super) closed: WriteClock,
    pub(super) data: Buf,
}

/// A fragment of data as it was written, partly or wholly live.
struct WrittenFragment {
    sector: Sector,
    /// Range in bytes from the start of the segment.
    at: Range<u64>,
    crc: u32,
    born: WriteClock,
    live: Vec<(Sector, u64, ExtentCheck)>,
}

impl WrittenFragment {
    /// Compares the data with its checksums.
    fn check(&self, data: &[u8]) -> Result<(), SpaceError> {
        let crc_of = |sector: Sector, sectors: u64| {
            let from = ((sector.0 - self.sector.0) * SECTOR_BYTES) as usize;
            crc32c::crc32c(&data[from..from + (sectors * SECTOR_BYTES) as usize])
        };
        let whole = self.at.end - self.at.start;
        for (sector, sectors, check) in &self.live {
            let sound = match *check {
                ExtentCheck::Inline(_) | ExtentCheck::Segment => {
                    crc_of(self.sector, whole / SECTOR_BYTES) == self.crc
                }
                ExtentCheck::Own(crc) => crc_of(*sector, *sectors) == crc,
                ExtentCheck::None => true,
            };
            if !sound {
                return Err(SpaceError::Damaged {
                    sector: *sector,
                    sectors: *sectors,
                });
            }
        }
        Ok(())
    }
}

/// The loaded fragments of a segment, and the failure, if any.
#[derive(Default)]
pub(super) struct LoadedFragments {
    pub(super) pieces: Vec<LiveFragment>,
    /// The first reason why live data could not be loaded. That data stays in its place.
    pub(super) trouble: Option<SpaceError>,
}

/// A live range within the bytes that were read.
struct LiveRange {
    sector: Sector,
    sectors: u64,
    /// Offset in the segment, in bytes.
    at: u64,
    born: WriteClock,
}

impl LiveRange {
    /// Returns true if `next` continues this range in the space and in the segment, within one block of 4 KiB. Both are
    /// then moved as one fragment.
    fn continues_in(&self, next: &LiveRange) -> bool {
        let end = self.sector.0 + self.sectors;
        let in_line = !end.is_multiple_of(LINE_SECTORS);
        self.goes_on_in(next) && in_line
    }

    /// Returns true if `next` begins at the end of this range, in the space and in the segment.
    fn goes_on_in(&self, next: &LiveRange) -> bool {
        let end = self.sector.0 + self.sectors;
        end == next.sector.0 && self.at + self.sectors * SECTOR_BYTES == next.at
    }
}

/// Gives all consecutive ranges of a page the age of the youngest. They then stay together, and form one long entry
/// (`weight.rs`).
fn join_pages(runs: &mut [LiveRange]) {
    let in_page = |one: &LiveRange, next: &LiveRange| {
        one.goes_on_in(next) && !next.sector.0.is_multiple_of(PAGE_SECTORS)
    };
    for page in runs.chunk_by_mut(in_page) {
        let youngest = page.iter().map(|run| run.born).max();
        for run in page {
            run.born = youngest.unwrap_or(run.born);
        }
    }
}

impl SpaceInner {
    /// Reads the live data of a segment. Live nodes of the map and chunks of the table leave with the next checkpoint.
    ///
    /// # Errors
    /// The entries of the segment cannot be read at all.
    pub(super) async fn load_live(
        self: &Rc<Self>,
        slot: SegmentSlot,
        segment: SegmentSeq,
    ) -> Result<LoadedFragments, SpaceError> {
        let mut loaded = LoadedFragments::default();
        let written = self.written_and_live(slot, segment, &mut loaded).await?;
        let mut rest = &written[..];
        while !rest.is_empty() {
            let near = |pair: &[WrittenFragment]| {
                pair[1].at.start.saturating_sub(pair[0].at.end) <= GAP_BYTES
            };
            let run = 1 + rest.windows(2).take_while(|pair| near(pair)).count();
            let (here, behind) = rest.split_at(run);
            rest = behind;
            let end = here.iter().map(|one| one.at.end).max().unwrap_or_default();
            match read_blocks(&*self.store, slot, here[0].at.start..end).await {
                Ok((from, bytes)) => self.cut_out(slot, segment, here, from, bytes, &mut loaded),
                Err(error) => _ = loaded.trouble.get_or_insert(error.into()),
            }
        }
        Ok(loaded)
    }

    /// Checks adjacent fragments, and extracts their live ranges. `bytes` begins at byte `from` of the segment.
    fn cut_out(
        &self,
        slot: SegmentSlot,
        segment: SegmentSeq,
        here: &[WrittenFragment],
        from: u64,
        bytes: Buf,
        loaded: &mut LoadedFragments,
    ) {
        let known = *self.commit.composer().table.get(slot);
        let at = |offset: u64| (offset - from) as usize;
        let mut runs: Vec<LiveRange> = Vec::new();
        for one in here {
            if let Err(error) = one.check(&bytes[at(one.at.start)..at(one.at.end)]) {
                loaded.trouble.get_or_insert(error);
                continue;
            }
            for (sector, sectors, _) in &one.live {
                let next = LiveRange {
                    sector: *sector,
                    sectors: *sectors,
                    at: one.at.start + (sector.0 - one.sector.0) * SECTOR_BYTES,
                    born: one.born,
                };
                match runs.last_mut() {
                    Some(last) if last.continues_in(&next) => {
                        last.sectors += next.sectors;
                        last.born = last.born.max(next.born);
                    }
                    _ => runs.push(next),
                }
            }
        }
        join_pages(&mut runs);
        let layout = self.store.layout();
        loaded
            .pieces
            .extend(runs.into_iter().map(|run| LiveFragment {
                sector: run.sector,
                sectors: run.sectors,
                place: layout.place(segment, run.at as u32),
                born: run.born,
                stream: known.stream,
                closed: known.closed,
                data: bytes.slice(at(run.at)..at(run.at + run.sectors * SECTOR_BYTES)),
            }));
    }

    /// Returns the live data of a segment, in order. Makes the next checkpoint write live nodes and chunks of the
    /// segment elsewhere.
    async fn written_and_live(
        self: &Rc<Self>,
        slot: SegmentSlot,
        segment: SegmentSeq,
        loaded: &mut LoadedFragments,
    ) -> Result<Vec<WrittenFragment>, SpaceError> {
        let volume = self.superblock.borrow().volume;
        let contents = read_contents(&*self.store, volume, slot, segment).await?;
        let opened = self.commit.composer().table.get(slot).born;
        let layout = self.store.layout();
        let mut written = Vec::new();
        // Sectors of nodes and parts of checkpoints, live or not.
        let mut meta = 0;
        for (_, at, entry) in &contents.entries {
            let place = layout.place(segment, *at);
            let (sector, sectors, crc, born) = match *entry {
                SpaceEntry::Data {
                    sector,
                    sectors,
                    crc,
                } => (sector, u64::from(sectors), crc, opened),
                SpaceEntry::Moved {
                    sector,
                    sectors,
                    crc,
                    born,
                    ..
                } => (sector, u64::from(sectors), crc, born),
                _ => {
                    meta += entry.payload_sectors();
                    if let Err(error) = self.rewrite(entry, place).await {
                        loaded.trouble.get_or_insert(error);
                    }
                    continue;
                }
            };
            let from = u64::from(*at);
            let piece = WrittenFragment {
                sector,
                at: from..from + sectors * SECTOR_BYTES,
                crc,
                born,
                live: Vec::new(),
            };
            if let Err(error) = self.add_live(piece, place, &mut written).await {
                loaded.trouble.get_or_insert(error);
            }
        }
        let live = written.iter().flat_map(|piece| &piece.live);
        let found = meta + live.map(|(_, sectors, _)| sectors).sum::<u64>();
        if self.misses_some(slot, segment, found) {
            let lost = SpaceError::Headers(segment);
            loaded.trouble.get_or_insert(lost);
        }
        Ok(written)
    }

    /// Makes the next checkpoint write a node or a chunk elsewhere, if it is live at this place.
    async fn rewrite(
        self: &Rc<Self>,
        entry: &SpaceEntry,
        place: LogPlace,
    ) -> Result<(), SpaceError> {
        match *entry {
            SpaceEntry::Node { level, key, .. } => {
                self.loading(|map| map.redirty(level, key, place)).await?;
            }
            SpaceEntry::Meta {
                kind: MetaKind::Table,
                index,
                ..
            } => self.rewrite_chunk(index as usize, place),
            _ => {}
        }
        Ok(())
    }

    /// Returns true if the table counts more live sectors in a segment than were `found` there, since a damaged header
    /// hides some of them. Without this check, the cleaner would count the segment as cleaned, and read it again after
    /// each checkpoint.
    fn misses_some(&self, slot: SegmentSlot, segment: SegmentSeq, found: u64) -> bool {
        let (streams, map) = (self.commit.composer(), self.map.borrow());
        let table = &streams.table;
        // Detached subtrees are counted, but found only when they are reaped.
        let is_counted = map.is_exact() && map.detached() == 0 && !table.is_doubtful();
        is_counted && table.get(slot).seq == segment && found < u64::from(table.live_in(slot))
    }

    /// Adds the live part of a fragment that was written at `place`. An extent that was overwritten in place has its
    /// own checksum, whatever fragments were written there before. Such an extent is added as a whole, with the
    /// fragment that contains its start.
    async fn add_live(
        &self,
        mut piece: WrittenFragment,
        place: LogPlace,
        written: &mut Vec<WrittenFragment>,
    ) -> Result<(), SpaceError> {
        let line = piece.sector.line().first_sector();
        let mut pins = self.map.borrow().pins();
        self.prepare(line, LINE_SECTORS, &mut pins).await?;
        let sectors = (piece.at.end - piece.at.start) / SECTOR_BYTES;
        let range = piece.sector.0..piece.sector.0 + sectors;
        let lies_here = |extent: &MapExtent| {
            range.contains(&extent.sector)
                && extent.place == place.plus(extent.sector - range.start)
        };
        for extent in mapped(&self.map.borrow(), line, LINE_SECTORS) {
            if let ExtentCheck::Own(_) = extent.check {
                if lies_here(&extent) {
                    let from = piece.at.start + (extent.sector - range.start) * SECTOR_BYTES;
                    written.push(WrittenFragment {
                        sector: Sector(extent.sector),
                        at: from..from + extent.sectors * SECTOR_BYTES,
                        crc: 0,
                        born: piece.born,
                        live: vec![(Sector(extent.sector), extent.sectors, extent.check)],
                    });
                }
            } else if let Some(part) = extent.part(range.clone())
                && lies_here(&part)
            {
                piece
                    .live
                    .push((Sector(part.sector), part.sectors, part.check));
            }
        }
        if !piece.live.is_empty() {
            written.push(piece);
        }
        Ok(())
    }
}
