//! Reads: from memory, from the device with checksums, or zeroes.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{ALIGN, BufMut};
use forebay_units::{LINE_SECTORS, SECTOR_BYTES, Sector, SegmentSeq, round_down, round_up};
use futures_util::future::try_join_all;

use crate::batch::BatchError;
use crate::checks::{SegmentChecksums, read_contents};
use crate::error::SpaceError;
use crate::geometry::SegmentSlot;
use crate::prepared::mapped;
use crate::space::{Space, SpaceInner};
use forebay_extent_map::{ExtentCheck, LogPlace, MapExtent};

/// A part of a read that lies on the device.
struct ReadExtent {
    /// The requested sectors.
    wanted: Range<u64>,
    /// The sectors to check: the requested sectors, or the whole extent if only the extent has a checksum.
    extent: MapExtent,
    /// `None` if the map points at a retired segment, which means damage.
    slot: Option<SegmentSlot>,
    segment: SegmentSeq,
}

/// Prevents a segment from being opened while it is read.
pub(crate) struct SlotPin<'a> {
    inner: &'a SpaceInner,
    slot: SegmentSlot,
}

impl SlotPin<'_> {
    /// Pins the segment that contains a place. `None` if the segment is retired.
    pub(crate) fn of_place(inner: &SpaceInner, place: LogPlace) -> Option<SlotPin<'_>> {
        let mut streams = inner.commit.composer_mut();
        let slot = streams.table.slot_at(place)?;
        streams.table.pin(slot);
        Some(SlotPin { inner, slot })
    }

    /// Returns the slot of the segment.
    pub(crate) fn slot(&self) -> SegmentSlot {
        self.slot
    }
}

impl Drop for SlotPin<'_> {
    fn drop(&mut self) {
        self.inner.unpin(self.slot);
    }
}

impl Space {
    /// Reads whole sectors into `buf`, and returns it.
    ///
    /// # Errors
    /// A part cannot be read, or does not match its checksum. The result is then an error for the whole read.
    pub async fn read(&self, sector: Sector, mut buf: BufMut) -> Result<BufMut, SpaceError> {
        let sectors = buf.len() as u64 / SECTOR_BYTES;
        let whole = (buf.len() as u64).is_multiple_of(SECTOR_BYTES) && sectors > 0;
        if !whole {
            return Err(BatchError::Sectors(buf.len()).into());
        }
        if sector
            .0
            .checked_add(sectors)
            .is_none_or(|end| end > self.sectors())
        {
            return Err(BatchError::Beyond { sector, sectors }.into());
        }
        let inner = &self.inner;
        let mut pins = inner.map.borrow().pins();
        let (lines, lines_len) = in_lines(sector, sectors);
        inner.prepare(lines, lines_len, &mut pins).await?;
        let len = buf.len();
        let buf = loop {
            let (parts, held) = inner.take_from_memory(sector, &mut buf);
            let read = inner.read_parts(sector, &parts, buf).await;
            drop(held);
            match read {
                Ok(read) => break read,
                // The block was overwritten meanwhile, and the new data was written in place.
                Err(SpaceError::Damaged { .. }) if inner.has_changed(&parts) => {
                    buf = BufMut::to_fill(len);
                }
                Err(error) => return Err(error),
            }
        };
        drop(pins);
        inner
            .map
            .borrow_mut()
            .shrink(inner.options.map_bytes as usize);
        Ok(buf)
    }
}

impl SpaceInner {
    /// Fills in data from memory, and zeroes for unmapped sectors. Returns the parts that lie on the device, and pins
    /// their segments.
    fn take_from_memory(
        &self,
        sector: Sector,
        buf: &mut BufMut,
    ) -> (Vec<ReadExtent>, Vec<SlotPin<'_>>) {
        let (mut parts, mut held) = (Vec::new(), Vec::new());
        let mut streams = self.commit.composer_mut();
        let map = self.map.borrow();
        let end = sector.0 + buf.len() as u64 / SECTOR_BYTES;
        let mut done = sector.0;
        let bytes = |from: u64, to: u64| {
            ((from - sector.0) * SECTOR_BYTES) as usize..((to - sector.0) * SECTOR_BYTES) as usize
        };
        let (lines, lines_len) = in_lines(sector, end - sector.0);
        for whole in mapped(&map, lines, lines_len) {
            let Some(part) = whole.part(sector.0..end) else {
                continue;
            };
            buf[bytes(done, part.sector)].fill(0);
            done = part.end();
            if let Some(data) = streams.in_ram(part.place, part.sectors) {
                buf[bytes(part.sector, done)].copy_from_slice(data);
                continue;
            }
            let segment = streams.layout.segment_of(part.place);
            let slot = streams.table.slot_of(segment);
            if let Some(slot) = slot {
                streams.table.pin(slot);
                held.push(SlotPin { inner: self, slot });
            }
            let own = matches!(whole.check, ExtentCheck::Own(_));
            parts.push(ReadExtent {
                wanted: part.sector..part.end(),
                extent: if own { whole } else { part },
                slot,
                segment,
            });
        }
        buf[bytes(done, end)].fill(0);
        (parts, held)
    }

    /// Reads the parts on the device of a range that begins at `sector`, each part to its position in `buf`.
    async fn read_parts(
        &self,
        sector: Sector,
        parts: &[ReadExtent],
        mut buf: BufMut,
    ) -> Result<BufMut, SpaceError> {
        let bytes = |from: u64, to: u64| ((to - from) * SECTOR_BYTES) as usize;
        let whole = sector.0..sector.0 + buf.len() as u64 / SECTOR_BYTES;
        match parts {
            [] => return Ok(buf),
            [part] if part.wanted == whole => return self.read_part(part, buf).await,
            _ => {}
        }
        // Read all parts concurrently: they can lie in different segments, or in several records of one segment.
        let (mut done, mut between) = (whole.start, Vec::with_capacity(parts.len()));
        let mut reads = Vec::with_capacity(parts.len());
        for part in parts {
            let wanted = &part.wanted;
            between.push(buf.split_to(bytes(done, wanted.start)));
            let place = buf.split_to(bytes(wanted.start, wanted.end));
            reads.push(self.read_part(part, place));
            done = wanted.end;
        }
        let read = try_join_all(reads).await?;
        let pieces = between.into_iter().zip(read);
        let pieces = pieces.flat_map(|(between, read)| [between, read]);
        Ok(joined(pieces.chain([buf])))
    }

    /// Returns true if the mapping of these parts has changed.
    fn has_changed(&self, parts: &[ReadExtent]) -> bool {
        let map = self.map.borrow();
        let is_same = |part: &ReadExtent| {
            let extent = &part.extent;
            mapped(&map, Sector(extent.sector), extent.sectors) == [*extent]
        };
        !parts.iter().all(is_same)
    }

    /// Reads a part to `place`, which has the same length, and returns `place`. Sectors that share a checksum with the
    /// part are read and checked as well. If the part needs no other sectors and the memory is aligned, no data is
    /// copied.
    async fn read_part(&self, part: &ReadExtent, place: BufMut) -> Result<BufMut, SpaceError> {
        let extent = &part.extent;
        let damaged = || SpaceError::Damaged {
            sector: Sector(extent.sector),
            sectors: extent.sectors,
        };
        let slot = part.slot.ok_or_else(damaged)?;
        let layout = self.store.layout();
        let offset = layout.offset_of(extent.place) / SECTOR_BYTES as u32;
        let (from, to) = (offset, offset + extent.sectors as u32);
        let (pieces, around) = match extent.check {
            ExtentCheck::Segment => {
                let found = self.pieces_around(slot, part.segment, from..to).await?;
                let (pieces, around) = found.ok_or_else(damaged)?;
                (Some(pieces), around)
            }
            ExtentCheck::Inline(_) | ExtentCheck::Own(_) | ExtentCheck::None => (None, from..to),
        };
        let block = u64::from(layout.block) / SECTOR_BYTES;
        let first = round_down(around.start.into(), block);
        let last = round_up(around.end.into(), block);
        let at = first * SECTOR_BYTES;
        let len = ((last - first) * SECTOR_BYTES) as usize;
        let skip = (part.wanted.start - extent.sector) as u32;
        let wanted = offset + skip..offset + skip + (part.wanted.end - part.wanted.start) as u32;
        let is_whole = first == wanted.start.into() && last == wanted.end.into();
        let is_aligned = place.as_ptr().addr().is_multiple_of(ALIGN);
        let (given, place) = if is_whole && is_aligned {
            (place, None)
        } else {
            (BufMut::to_fill(len), Some(place))
        };
        let read = self.store.read(slot, at, given).await?;
        let range = |from: u32, to: u32| {
            let (from, to) = (u64::from(from) - first, u64::from(to) - first);
            (from * SECTOR_BYTES) as usize..(to * SECTOR_BYTES) as usize
        };
        let bytes = |from: u32, to: u32| &read[range(from, to)];
        let sound = match (&pieces, extent.check) {
            (Some(pieces), _) => within(pieces, from, to).iter().all(|piece| {
                crc32c::crc32c(bytes(piece.at, piece.at + piece.sectors)) == piece.crc
            }),
            (None, ExtentCheck::Inline(crc) | ExtentCheck::Own(crc)) => {
                crc32c::crc32c(bytes(from, to)) == crc
            }
            (None, _) => true,
        };
        if !sound {
            return Err(damaged());
        }
        let Some(mut place) = place else {
            return Ok(read);
        };
        place.copy_from_slice(&read[range(wanted.start, wanted.end)]);
        Ok(place)
    }

    /// Returns the fragments of a segment, and the sectors of those fragments that overlap `wanted`. Reads the
    /// fragments again if the cached ones do not cover `wanted`, since a header may have been read wrongly. `None` if
    /// they do not cover it either.
    async fn pieces_around(
        &self,
        slot: SegmentSlot,
        segment: SegmentSeq,
        wanted: Range<u32>,
    ) -> Result<Option<(SegmentChecksums, Range<u32>)>, SpaceError> {
        for _ in 0..2 {
            let pieces = self.pieces(slot, segment).await?;
            if let Some(around) = around(&pieces, wanted.start, wanted.end) {
                return Ok(Some((pieces, around)));
            }
            self.checks.borrow_mut().forget(slot);
        }
        Ok(None)
    }

    /// Returns the fragments of a segment as they were written.
    async fn pieces(
        &self,
        slot: SegmentSlot,
        segment: SegmentSeq,
    ) -> Result<SegmentChecksums, SpaceError> {
        if let Some(pieces) = self.checks.borrow_mut().get(slot, segment) {
            return Ok(pieces);
        }
        let volume = self.superblock.borrow().volume;
        let contents = read_contents(&*self.store, volume, slot, segment).await?;
        let pieces = contents.pieces();
        self.checks.borrow_mut().keep(slot, segment, &pieces);
        Ok(pieces)
    }
}

/// Joins buffers in order. Buffers that are adjacent in memory are not copied.
fn joined(pieces: impl Iterator<Item = BufMut>) -> BufMut {
    let join = |front: BufMut, back| {
        let copied =
            |(front, back): (BufMut, BufMut)| BufMut::copy_of(&[&front[..], &back].concat());
        front.unsplit(back).unwrap_or_else(copied)
    };
    pieces.reduce(join).unwrap_or_else(|| BufMut::zeroed(0))
}

/// Extends a range to whole blocks of 4 KiB.
fn in_lines(sector: Sector, sectors: u64) -> (Sector, u64) {
    let from = round_down(sector.0, LINE_SECTORS);
    let to = round_up(sector.0 + sectors, LINE_SECTORS);
    (Sector(from), to - from)
}

/// Returns the fragments that overlap `from..to`.
fn within(
    pieces: &Rc<[crate::checks::FragmentChecksum]>,
    from: u32,
    to: u32,
) -> &[crate::checks::FragmentChecksum] {
    let first = pieces.partition_point(|piece| piece.range().end <= from);
    let end = pieces.partition_point(|piece| piece.at < to);
    &pieces[first..end.max(first)]
}

/// Returns the sectors of the fragments that overlap `from..to`. `None` if the fragments do not cover it.
fn around(pieces: &SegmentChecksums, from: u32, to: u32) -> Option<std::ops::Range<u32>> {
    let within = within(pieces, from, to);
    let mut covered = within.first().filter(|piece| piece.at <= from)?.range();
    for piece in &within[1..] {
        if piece.at != covered.end {
            return None;
        }
        covered.end = piece.range().end;
    }
    let most = (to - from) + 2 * LINE_SECTORS as u32;
    (covered.end >= to && covered.end - covered.start <= most).then_some(covered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_buffers_are_joined_in_place_and_others_are_copied() {
        let mut back = BufMut::copy_of(b"neighbour");
        let at = back.as_ptr();
        let pieces = [back.split_to(0), back.split_to(5), back.split_to(1), back];
        let whole = joined(pieces.into_iter());
        assert_eq!((&whole[..], whole.as_ptr()), (&b"neighbour"[..], at));
        let strangers = [BufMut::copy_of(b"from afar, "), whole];
        assert_eq!(joined(strangers.into_iter())[..], *b"from afar, neighbour");
        assert!(joined([].into_iter()).is_empty());
    }
}
