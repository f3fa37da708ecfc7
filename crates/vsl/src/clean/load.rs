//! What is live in a segment, read and checked.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Buf, BufMut};
use forebay_placement::WriteClock;
use forebay_units::{SECTOR_BYTES, Sector, SegmentSeq, round_down, round_up};

use crate::checks::read_contents;
use crate::error::SpaceError;
use crate::format::{Entry, Stream};
use crate::geometry::Slot;
use crate::prepared::mapped;
use crate::space::Inner;
use forebay_extents::Check;
use forebay_extents::Place;

/// What lies between two live pieces is read with them if it is no longer than this, in bytes.
const GAP_BYTES: u64 = 128 << 10;

/// A piece of a segment that is live: it is moved.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) sector: Sector,
    pub(super) sectors: u64,
    /// Where it lies, and in which segment.
    pub(super) place: Place,
    pub(super) segment: SegmentSeq,
    /// When its user wrote it.
    pub(super) born: WriteClock,
    /// The stream that it was written to.
    pub(super) stream: Stream,
    /// When its segment was closed.
    pub(super) closed: WriteClock,
    pub(super) data: Buf,
}

/// A piece of data as it was written, of which something is live.
struct Written {
    sector: Sector,
    /// In bytes from where the segment begins.
    at: Range<u64>,
    crc: u32,
    born: WriteClock,
    live: Vec<(Sector, u64, Check)>,
}

impl Written {
    /// Compares what was read with its checksums.
    fn check(&self, data: &[u8]) -> Result<(), SpaceError> {
        let crc_of = |sector: Sector, sectors: u64| {
            let from = ((sector.0 - self.sector.0) * SECTOR_BYTES) as usize;
            crc32c::crc32c(&data[from..from + (sectors * SECTOR_BYTES) as usize])
        };
        let whole = self.at.end - self.at.start;
        for (sector, sectors, check) in &self.live {
            let sound = match *check {
                Check::Inline(_) | Check::Segment => {
                    crc_of(self.sector, whole / SECTOR_BYTES) == self.crc
                }
                Check::Own(crc) => crc_of(*sector, *sectors) == crc,
                Check::None => true,
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

impl Inner {
    /// Reads what is live of the data in a segment. Nodes of the map that are live there leave with the next
    /// checkpoint.
    pub(super) async fn load_live(
        self: &Rc<Self>,
        slot: Slot,
        segment: SegmentSeq,
    ) -> Result<Vec<Piece>, SpaceError> {
        let written = self.written_and_live(slot, segment).await?;
        let (layout, known) = {
            let streams = self.commit.composer();
            (streams.layout, *streams.usage.get(slot))
        };
        let mut pieces = Vec::new();
        let mut rest = &written[..];
        while !rest.is_empty() {
            let near = |pair: &[Written]| pair[1].at.start - pair[0].at.end <= GAP_BYTES;
            let run = 1 + rest.windows(2).take_while(|pair| near(pair)).count();
            let (here, behind) = rest.split_at(run);
            rest = behind;
            let range = here[0].at.start..here[run - 1].at.end;
            let (from, bytes) = self.read_range(layout.slot_at(slot), range).await?;
            for one in here {
                let at = |offset: u64| (offset - from) as usize;
                let whole = bytes.slice(at(one.at.start)..at(one.at.end));
                one.check(&whole)?;
                for (sector, sectors, _) in &one.live {
                    let skip = sector.0 - one.sector.0;
                    let data = (skip * SECTOR_BYTES) as usize;
                    let len = (sectors * SECTOR_BYTES) as usize;
                    pieces.push(Piece {
                        sector: *sector,
                        sectors: *sectors,
                        place: layout.place(slot, one.at.start as u32).plus(skip),
                        segment,
                        born: one.born,
                        stream: known.stream,
                        closed: known.closed,
                        data: whole.slice(data..data + len),
                    });
                }
            }
        }
        Ok(pieces)
    }

    /// The data in a segment of which something is live, in order. Nodes of the map that are live there are to be
    /// written anew.
    async fn written_and_live(
        self: &Rc<Self>,
        slot: Slot,
        segment: SegmentSeq,
    ) -> Result<Vec<Written>, SpaceError> {
        let superblock = self.superblock.borrow().clone();
        let contents = read_contents(&*self.device, &superblock, slot, segment).await?;
        let (layout, opened) = {
            let streams = self.commit.composer();
            (streams.layout, streams.usage.get(slot).born)
        };
        let mut written = Vec::new();
        for (_, at, entry) in &contents.entries {
            let place = layout.place(slot, *at);
            let (sector, sectors, crc, born) = match *entry {
                Entry::Data {
                    sector,
                    sectors,
                    crc,
                } => (sector, u64::from(sectors), crc, opened),
                Entry::Moved {
                    sector,
                    sectors,
                    crc,
                    born,
                    ..
                } => (sector, u64::from(sectors), crc, born),
                Entry::Node { level, key, .. } => {
                    // It leaves with the next checkpoint, for which there is no hurry.
                    self.loading(|map| map.redirty(level, key, place)).await?;
                    continue;
                }
                Entry::Trim { .. }
                | Entry::Opened { .. }
                | Entry::Meta { .. }
                | Entry::Home { .. } => continue,
            };
            let live = self.live_of(sector, sectors, place).await?;
            let from = u64::from(*at);
            if !live.is_empty() {
                written.push(Written {
                    sector,
                    at: from..from + sectors * SECTOR_BYTES,
                    crc,
                    born,
                    live,
                });
            }
        }
        Ok(written)
    }

    /// What the map still points at of a piece that was written at `place`.
    async fn live_of(
        &self,
        sector: Sector,
        sectors: u64,
        place: Place,
    ) -> Result<Vec<(Sector, u64, Check)>, SpaceError> {
        let mut pins = self.map.borrow().pins();
        self.prepare(sector, sectors, &mut pins).await?;
        let mut live = Vec::new();
        for extent in mapped(&self.map.borrow(), sector, sectors) {
            if extent.place == place.plus(extent.sector - sector.0) {
                live.push((Sector(extent.sector), extent.sectors, extent.check));
            }
        }
        Ok(live)
    }

    /// Reads bytes of a segment that begins at `segment`. Says from which byte on.
    async fn read_range(&self, segment: u64, range: Range<u64>) -> Result<(u64, Buf), SpaceError> {
        let block = u64::from(self.commit.composer().layout.block);
        let (from, to) = (round_down(range.start, block), round_up(range.end, block));
        let buf = BufMut::zeroed((to - from) as usize);
        let read = self.device.read(segment + from, buf).await?;
        Ok((from, read.freeze()))
    }
}
